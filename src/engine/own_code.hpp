// The library's own code, brought into memory before it is called for the first time.
#pragma once

namespace coppice::engine {

// Maps all of this library's code and constants. What is called for the first time after a death would otherwise be fetched
// then, page by page, from wherever the file lies: a disk, or a file server. Some 2 MB that all processes of a host share.
void map_own_code();

}  // namespace coppice::engine
