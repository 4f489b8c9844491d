// How the ranks of elsewhere_test.cpp reach each other in the guest.
#include <utility>

#include "hosts.hpp"
#include "integration/outside.hpp"

namespace coppice::testing {
namespace {

Layout on_devices(const char* name, std::map<std::string, std::string> environment) {
    JobOptions job = job_on_devices(environment);
    return {name, job.ranks, job.hosts, std::move(environment), std::move(job.of_rank)};
}

}  // namespace

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        on_devices("shm_and_verbs", {{"COPPICE_TRANSPORT", "shm,verbs"}, {"COPPICE_TREE", "binomial"}}),
        on_devices("verbs_everywhere", {{"COPPICE_TRANSPORT", "verbs"}, {"COPPICE_HIERARCHY", "flat"}}),
        on_devices("shm_and_ucx", {{"COPPICE_TRANSPORT", "shm,ucx"}, {"COPPICE_TREE", "binomial"}}),
        on_devices("ucx_everywhere", {{"COPPICE_TRANSPORT", "ucx"}, {"COPPICE_HIERARCHY", "flat"}}),
    };
    return all;
}

}  // namespace coppice::testing
