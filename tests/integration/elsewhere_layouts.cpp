// How the ranks of elsewhere_test.cpp reach each other on any machine.
#include "integration/outside.hpp"

namespace coppice::testing {

const std::vector<Layout>& layouts() {
    static const std::vector<Layout> all{
        {"one_host", 5, 1, {}},
        {"flat_binomial", 5, 1, {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_TREE", "binomial"}}},
        {"flat_checked",
         5,
         1,
         {{"COPPICE_HIERARCHY", "flat"}, {"COPPICE_TREE", "binomial"}, {"COPPICE_CORRECTION", "checked"}}},
        {"ucx", 4, 1, {{"COPPICE_TRANSPORT", "ucx"}, {"COPPICE_TREE", "binomial"}}},
        {"tcp", 4, 1, {{"COPPICE_TRANSPORT", "tcp"}}},
        {"two_hosts", 5, 2, {{"COPPICE_TREE", "binomial"}}},
        {"three_hosts_checked", 6, 3, {{"COPPICE_TREE", "binomial"}, {"COPPICE_CORRECTION", "checked"}}},
    };
    return all;
}

}  // namespace coppice::testing
