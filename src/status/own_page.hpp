// The owner's side of a status page (page.hpp).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "status/page.hpp"

namespace coppice::status {

// Which job this process belongs to, by what its launcher has set: "coppice-run-1234", "slurm-77.0", PMIx's or PMI's name for
// it, or "process-1234" where there is none.
std::string job_here();

// One thread at a time.
class OwnPage {
  public:
    // Takes a descriptor and sizeof(Page) bytes, all of it at once: no store faults later. Why not, in words.
    static Result<std::unique_ptr<OwnPage>> make(std::uint64_t now_ns);
    ~OwnPage();
    OwnPage(const OwnPage&) = delete;
    OwnPage& operator=(const OwnPage&) = delete;

    // Ranks of a group are on that host.
    void add_host(std::string_view name);

    // By which others find it among what this process has open.
    int descriptor() const { return descriptor_; }

    Entered& entered(std::uint32_t slot) { return page_->header.entered[slot]; }

    // The place of the next report, with what the report before the last has left there. Then publish() it.
    Report& next();
    void publish(std::uint64_t now_ns);

  private:
    OwnPage(Page* page, int descriptor) : page_(page), descriptor_(descriptor) {}

    Page* page_;
    int descriptor_;
};

}  // namespace coppice::status
