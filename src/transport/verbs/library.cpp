#include "transport/verbs/library.hpp"

#include <array>

#include "base/shared_library.hpp"
#include "transport/loading.hpp"

namespace coppice::transport::verbs {

constinit Library library;

namespace {

constexpr SharedLibrary kIbverbs{.soname = "libibverbs.so.1", .package = "libibverbs1"};
constexpr SharedLibrary kRdmacm{.soname = "librdmacm.so.1", .package = "librdmacm1"};

#define COPPICE_AS_ENTRY(function) LibraryFunction{#function, &library.function},
constexpr std::array kIbverbsFunctions{COPPICE_IBV_FUNCTIONS(COPPICE_AS_ENTRY)};
constexpr std::array kRdmacmFunctions{COPPICE_RDMA_FUNCTIONS(COPPICE_AS_ENTRY)};
#undef COPPICE_AS_ENTRY

tl::expected<void, std::string> load_both() {
    auto loaded = load_library(kIbverbs, kIbverbsFunctions);
    return loaded ? load_library(kRdmacm, kRdmacmFunctions) : loaded;
}

}  // namespace

Result<void> load() {
    static Loading loading;
    return loading.load("verbs", load_both);
}

}  // namespace coppice::transport::verbs
