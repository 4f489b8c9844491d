// What a call says that has waited until its deadline: for which ranks, and what these do instead, as far as their pages are on this host.
#include <unistd.h>

#include "api/api.hpp"
#include "status/why.hpp"

namespace coppice::api {
namespace {

// A call that may wait for less asks often: it goes without a look at all processes, which takes some ten milliseconds.
constexpr std::uint64_t kWorthALookNs = 100'000'000;

// "rank 3, which is stopped and has not entered broadcast 17 …"; "" where no page says more.
std::string seen_here(const engine::Group& group, const engine::Request& request) {
    status::Operation operation;
    group.show_request(request, operation);
    const show::Everything all = show::gather();
    for (const show::Seen& seen : all.pages) {
        if (seen.ended || seen.pid != getpid()) continue;
        const status::Report& report = seen.page.report;
        for (std::uint32_t i = 0; i < report.groups_count; ++i) {
            if (report.groups[i].token != group.core().around().id().token ||
                report.groups[i].epoch != group.epoch().value)
                continue;
            operation.group = i;
            return show::Reasons(all.pages).chain(seen, operation);
        }
    }
    return "";
}

}  // namespace

std::string in_vain(const engine::Group& group, const engine::Request& request, std::uint64_t timeout_ns) {
    std::string text = group.waiting_for(request);
    if (timeout_ns < kWorthALookNs || group.context().platform() != nullptr) return text;
    const std::string more = seen_here(group, request);
    return more.empty() ? text : fmt::format("{}; seen from outside, it {}", text, more);
}

}  // namespace coppice::api
