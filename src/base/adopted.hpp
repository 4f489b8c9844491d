// Descriptors that another library has opened for this one, which forked children close as they do with this one's own (process.hpp).
//
// The other library may close one without a word. Its number is then the next file's: one that this library opens is registered
// anew, by open_own() or close_in_children(), and is adopted no more. One of the program's is not told from the other library's.
#pragma once

#include "base/process.hpp"

namespace coppice::process {

void adopt(int descriptor, Closes what = Closes::it);
bool is_adopted(int descriptor);
// As forget_descriptor(). False, and nothing is done: the number is this library's own since, or nobody's.
bool disown(int descriptor);

}  // namespace coppice::process
