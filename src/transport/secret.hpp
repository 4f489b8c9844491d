// What the ranks of a group know and nobody else: made from what each of them gave to the exchange of the first greetings.
#pragma once

#include <array>

namespace coppice::transport {

struct GroupSecret {
    std::array<unsigned char, 32> bytes{};
};

}  // namespace coppice::transport
