// A launcher of the tests' own that speaks PMIx, and tells of deaths as it is told to, whether they are true or not.
#pragma once

#include <pmix.h>
#include <pmix_server.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/processes.hpp"

namespace coppice::testing {

// One job of ranks that do what they are told (reported.c). One at a time.
class PmixJob {
  public:
    PmixJob(std::uint32_t ranks, const std::map<std::string, std::string>& environment, std::uint32_t hosts);
    PmixJob(const PmixJob&) = delete;
    PmixJob& operator=(const PmixJob&) = delete;
    ~PmixJob();

    Processes& processes() { return processes_; }
    void tell(std::uint32_t rank, const std::string& line) const;
    void tell_all(const std::string& line) const;
    // The next line that the rank says; what is wrong where it says none in time, or has ended.
    std::string hear(std::uint32_t rank);
    // What all ranks have said on their standard error.
    std::string errors() const;

    // So many clients have ended their sessions so far.
    static std::uint32_t ended_sessions();
    // For what is reported.
    pmix_proc_t process(std::uint32_t rank) const;
    // An event about these processes, for the whole job. Returns when the server has sent it.
    void report(pmix_status_t event, std::vector<pmix_proc_t> affected) const;
    void report(pmix_status_t event, pmix_proc_t affected) const;
    // For that rank alone.
    void report_to(std::uint32_t rank, pmix_status_t event, pmix_proc_t affected) const;
    // With something else in place of the process.
    void report_nonsense(pmix_status_t event) const;

  private:
    void notify(pmix_status_t event, pmix_data_range_t range, std::vector<pmix_info_t>& infos) const;

    std::string name_;
    Processes processes_;
    std::vector<int> to_;    // each rank's standard input
    std::vector<int> from_;  // and output
    std::vector<std::string> heard_;
    int errors_ = -1;  // a file without a name
};

}  // namespace coppice::testing
