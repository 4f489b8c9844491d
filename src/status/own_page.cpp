#include "status/own_page.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string_view>

#include "base/host.hpp"
#include "base/process.hpp"

#ifndef COPPICE_VERSION
#error "COPPICE_VERSION is set by meson.build"
#endif

namespace coppice::status {
namespace {

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010
#endif

std::string_view variable(const char* name) {
    const char* const value = std::getenv(name);
    return value == nullptr ? std::string_view() : std::string_view(value);
}

// COPPICE_LAUNCHER is a path below /proc/<pid of coppice-run>.
std::string_view launcher_pid() {
    constexpr std::string_view kProc = "/proc/";
    const std::string_view path = variable("COPPICE_LAUNCHER");
    if (!path.starts_with(kProc)) return {};
    const std::string_view rest = path.substr(kProc.size());
    const std::string_view pid = rest.substr(0, rest.find('/'));
    const bool is_number = !pid.empty() && pid.find_first_not_of("0123456789") == std::string_view::npos;
    return is_number ? pid : std::string_view();
}

// The caller's program, as the kernel knows it.
std::string program_name() {
    std::string name(31, '\0');
    const int file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return {};
    const ssize_t size = read(file, name.data(), name.size());
    close(file);
    name.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    if (name.ends_with('\n')) name.pop_back();
    return name;
}

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    ~Descriptor() { process::close_own(number_); }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
    int number() const { return number_; }
    int take() { return std::exchange(number_, -1); }

  private:
    int number_;
};

tl::unexpected<Error> no_page(const char* what) {
    return fail(COPPICE_ERR_NO_RESOURCES, "{}: {}", what, std::strerror(errno));
}

}  // namespace

std::string job_here() {
    if (const auto pid = launcher_pid(); !pid.empty()) return fmt::format("coppice-run-{}", pid);
    if (const auto job = variable("SLURM_JOB_ID"); !job.empty()) {
        const auto step = variable("SLURM_STEP_ID");
        return step.empty() ? fmt::format("slurm-{}", job) : fmt::format("slurm-{}.{}", job, step);
    }
    for (const char* const name : {"PMIX_NAMESPACE", "PMI_JOBID"})
        if (const auto job = variable(name); !job.empty()) return std::string(job);
    return fmt::format("process-{}", getpid());
}

Result<std::unique_ptr<OwnPage>> OwnPage::make(std::uint64_t now_ns) {
    rlimit limit{};
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < sizeof(Page)) {
        return fail(COPPICE_ERR_NO_RESOURCES, "the limit of file sizes (RLIMIT_FSIZE) is {}, {} bytes are needed",
                    limit.rlim_cur, sizeof(Page));
    }
    Descriptor file(process::open_own([] { return memfd_create(kFileName, MFD_CLOEXEC | MFD_ALLOW_SEALING); }));
    if (file.number() < 0) return no_page("memfd_create");
    if (fchmod(file.number(), 0600) != 0) return no_page("fchmod");
    if (ftruncate(file.number(), sizeof(Page)) != 0) return no_page("ftruncate");
    if (fallocate(file.number(), 0, 0, sizeof(Page)) != 0) return no_page("fallocate");
    void* const memory = mmap(nullptr, sizeof(Page), PROT_READ | PROT_WRITE, MAP_SHARED, file.number(), 0);
    if (memory == MAP_FAILED) return no_page("mmap");
    // This mapping stays the only one that may write. Linux before 5.1 does not know the last seal.
    constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
    if (fcntl(file.number(), F_ADD_SEALS, kSeals | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0)
        fcntl(file.number(), F_ADD_SEALS, kSeals | F_SEAL_SEAL);

    auto* const page = new (memory) Page;
    Header& header = page->header;
    header.bytes = sizeof(Page);
    header.pid = getpid();
    header.start_time = process_start_time(getpid());
    header.made_ns = now_ns;
    set_text(header.library, COPPICE_VERSION);
    set_text(header.job, job_here());
    set_text(header.program, program_name());
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    set_text(header.host, host);
    std::unique_ptr<OwnPage> own(new OwnPage(page, file.take()));
    own->next();
    own->publish(now_ns);
    header.state.publish(static_cast<std::uint32_t>(State::open));
    return own;
}

OwnPage::~OwnPage() {
    if (!process::in_forked_child()) {
        page_->header.state.publish(static_cast<std::uint32_t>(State::closed));
        process::close_own(descriptor_);
    }
    munmap(page_, sizeof(Page));
}

// What is there stays as it is, so a reader sees names that are whole, or none behind them.
void OwnPage::add_host(std::string_view name) {
    auto& hosts = page_->header.hosts;
    const std::string_view known(hosts.data());
    for (std::size_t at = known.find(name); at != std::string_view::npos; at = known.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if ((at == 0 || known[at - 1] == ' ') && end < known.size() && known[end] == ' ') return;
    }
    if (name.empty() || known.size() + name.size() + 2 > hosts.size()) return;
    hosts[known.size() + name.size()] = ' ';
    shared::ProcessMemory::order_all();
    name.copy(hosts.data() + known.size(), name.size());
}

Report& OwnPage::next() {
    // Whatever follows is stored after the number of the last report is.
    shared::ProcessMemory::order_all();
    return page_->places[(page_->header.reports.own() + 1) % 2];
}

void OwnPage::publish(std::uint64_t now_ns) {
    const std::uint64_t number = page_->header.reports.own() + 1;
    Report& report = page_->places[number % 2];
    report.number = number;
    report.written_ns = now_ns;
    page_->header.reports.publish(number);
}

}  // namespace coppice::status
