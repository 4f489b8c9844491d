#include "transport/verbs/library.hpp"

#include <array>

#include "base/shared_library.hpp"

namespace coppice::transport::verbs {

constinit Library library;

namespace {

constexpr SharedLibrary kIbverbs{.soname = "libibverbs.so.1", .package = "libibverbs1"};
constexpr SharedLibrary kRdmacm{.soname = "librdmacm.so.1", .package = "librdmacm1"};

#define COPPICE_AS_ENTRY(function) LibraryFunction{#function, &library.function},
constexpr std::array kIbverbsFunctions{COPPICE_IBV_FUNCTIONS(COPPICE_AS_ENTRY)};
constexpr std::array kRdmacmFunctions{COPPICE_RDMA_FUNCTIONS(COPPICE_AS_ENTRY)};
#undef COPPICE_AS_ENTRY

Result<void> load_both() {
    auto loaded = load_library(kIbverbs, kIbverbsFunctions);
    if (loaded) loaded = load_library(kRdmacm, kRdmacmFunctions);
    if (!loaded) return fail(COPPICE_ERR_NO_TRANSPORT, "verbs: {}", loaded.error());
    return {};
}

}  // namespace

const Result<void>& load() {
    static const Result<void> loaded = load_both();
    return loaded;
}

}  // namespace coppice::transport::verbs
