#include "integration/pmix_server.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <stdexcept>

namespace coppice::testing {
namespace {

std::atomic<std::uint32_t> ended;
std::atomic<std::uint32_t> jobs;

pmix_status_t client_connected(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t client_finalized(const pmix_proc_t*, void*, pmix_op_cbfunc_t, void*) {
    ++ended;
    return PMIX_OPERATION_SUCCEEDED;
}
// All ranks are this server's: what they gave is what they get.
pmix_status_t fence(const pmix_proc_t*, std::size_t, const pmix_info_t*, std::size_t, char* data, std::size_t bytes,
                    pmix_modex_cbfunc_t done, void* argument) {
    done(PMIX_SUCCESS, data, bytes, argument, nullptr, nullptr);
    return PMIX_SUCCESS;
}
pmix_status_t register_events(pmix_status_t*, std::size_t, const pmix_info_t*, std::size_t, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
}
pmix_status_t deregister_events(pmix_status_t*, std::size_t, pmix_op_cbfunc_t, void*) {
    return PMIX_OPERATION_SUCCEEDED;
}

void check(pmix_status_t status, const char* what) {
    if (status != PMIX_SUCCESS && status != PMIX_OPERATION_SUCCEEDED)
        throw std::runtime_error(std::string(what) + ": " + PMIx_Error_string(status));
}

// Once in the life of the process.
void be_a_server() {
    static pmix_server_module_t module{};
    static const bool is_one = [] {
        module.client_connected = client_connected;
        module.client_finalized = client_finalized;
        module.fence_nb = fence;
        module.register_events = register_events;
        module.deregister_events = deregister_events;
        check(PMIx_server_init(&module, nullptr, 0), "PMIx_server_init");
        return true;
    }();
    static_cast<void>(is_one);
}

// Of a call that the library ends on its own thread.
struct Done {
    std::atomic<bool> is_over{false};
    pmix_status_t status = PMIX_SUCCESS;

    static void callback(pmix_status_t status, void* argument) {
        static_cast<Done*>(argument)->status = status;
        static_cast<Done*>(argument)->is_over = true;
    }
    void wait(pmix_status_t begun, const char* what) {
        check(begun, what);
        if (begun == PMIX_OPERATION_SUCCEEDED) return;
        if (!becomes([this] { return is_over.load(); })) throw std::runtime_error(std::string(what) + " does not end");
        check(status, what);
    }
};

template <class T>
pmix_info_t info(const char* key, const T* value, pmix_data_type_t type) {
    pmix_info_t made;
    PMIX_INFO_CONSTRUCT(&made);
    check(PMIx_Info_load(&made, key, value, type), key);
    return made;
}

void register_job(const std::string& name, std::uint32_t ranks) {
    std::array<char, 256> host{};
    ::gethostname(host.data(), host.size() - 1);
    std::string list;
    for (std::uint32_t rank = 0; rank < ranks; ++rank)
        list += (rank == 0 ? "" : ",") + std::to_string(rank);
    char* nodes = nullptr;
    char* places = nullptr;
    check(PMIx_generate_regex(host.data(), &nodes), "PMIx_generate_regex");
    check(PMIx_generate_ppn(list.c_str(), &places), "PMIx_generate_ppn");
    std::vector<pmix_info_t> infos{
        info(PMIX_UNIV_SIZE, &ranks, PMIX_UINT32),  info(PMIX_JOB_SIZE, &ranks, PMIX_UINT32),
        info(PMIX_LOCAL_SIZE, &ranks, PMIX_UINT32), info(PMIX_LOCAL_PEERS, list.c_str(), PMIX_STRING),
        info(PMIX_NODE_MAP, nodes, PMIX_STRING),    info(PMIX_PROC_MAP, places, PMIX_STRING)};
    Done done;
    done.wait(PMIx_server_register_nspace(name.c_str(), static_cast<int>(ranks), infos.data(), infos.size(),
                                          Done::callback, &done),
              "PMIx_server_register_nspace");
    for (pmix_info_t& one : infos)
        PMIX_INFO_DESTRUCT(&one);
    std::free(nodes);
    std::free(places);
}

}  // namespace

PmixJob::PmixJob(std::uint32_t ranks, const std::map<std::string, std::string>& environment, std::uint32_t hosts)
    : name_("job-" + std::to_string(++jobs)), heard_(ranks), errors_(::memfd_create("errors", MFD_CLOEXEC)) {
    // Of two processes that write at once each has its place.
    if (::fcntl(errors_, F_SETFL, O_APPEND) != 0) throw std::runtime_error("what ranks complain of can't be kept");
    be_a_server();
    ended = 0;
    register_job(name_, ranks);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) {
        const pmix_proc_t self = process(rank);
        Done done;
        done.wait(PMIx_server_register_client(&self, ::getuid(), ::getgid(), nullptr, Done::callback, &done),
                  "PMIx_server_register_client");
        std::array<int, 2> to{}, from{};
        if (::pipe2(to.data(), O_CLOEXEC) != 0 || ::pipe2(from.data(), O_CLOEXEC) != 0)
            throw std::runtime_error("no pipes");
        char** settings = nullptr;
        check(PMIx_server_setup_fork(&self, &settings), "PMIx_server_setup_fork");
        processes_.start([&] {
            for (char** one = settings; *one != nullptr; ++one)
                ::putenv(*one);
            ::setenv("COPPICE_HOST", ("h" + std::to_string(rank * hosts / ranks)).c_str(), 1);
            for (const auto& [key, value] : environment)
                ::setenv(key.c_str(), value.c_str(), 1);
            if (::dup2(to[0], 0) < 0 || ::dup2(from[1], 1) < 0 || ::dup2(errors_, 2) < 0) return 1;
            ::execl(REPORTED, REPORTED, static_cast<char*>(nullptr));
            return 127;
        });
        ::close(to[0]);
        ::close(from[1]);
        to_.push_back(to[1]);
        from_.push_back(from[0]);
    }
}

PmixJob::~PmixJob() {
    processes_.clear();
    for (const std::vector<int>* const all : {&to_, &from_})
        for (const int descriptor : *all)
            ::close(descriptor);
    ::close(errors_);
    PMIx_server_deregister_nspace(name_.c_str(), nullptr, nullptr);
}

void PmixJob::tell(std::uint32_t rank, const std::string& line) const {
    const std::string whole = line + "\n";
    if (::write(to_[rank], whole.data(), whole.size()) != static_cast<ssize_t>(whole.size()))
        throw std::runtime_error("rank " + std::to_string(rank) + " does not listen");
}

void PmixJob::tell_all(const std::string& line) const {
    for (std::uint32_t rank = 0; rank < to_.size(); ++rank)
        tell(rank, line);
}

std::string PmixJob::hear(std::uint32_t rank) {
    std::string& text = heard_[rank];
    while (text.find('\n') == std::string::npos) {
        pollfd entry{.fd = from_[rank], .events = POLLIN, .revents = 0};
        std::array<char, 512> more{};
        if (::poll(&entry, 1, static_cast<int>(2 * kDeadlineNs / 1'000'000)) != 1) return "it says nothing";
        const ssize_t bytes = ::read(from_[rank], more.data(), more.size());
        if (bytes <= 0) return "it has ended: " + errors();
        text.append(more.data(), static_cast<std::size_t>(bytes));
    }
    const std::size_t end = text.find('\n');
    std::string line = text.substr(0, end);
    text.erase(0, end + 1);
    return line;
}

std::string PmixJob::errors() const {
    std::string text(1 << 16, '\0');
    const ssize_t bytes = ::pread(errors_, text.data(), text.size(), 0);
    text.resize(bytes < 0 ? 0 : static_cast<std::size_t>(bytes));
    return text;
}

std::uint32_t PmixJob::ended_sessions() {
    return ended;
}

pmix_proc_t PmixJob::process(std::uint32_t rank) const {
    pmix_proc_t one;
    PMIX_LOAD_PROCID(&one, name_.c_str(), rank);
    return one;
}

void PmixJob::notify(pmix_status_t event, pmix_data_range_t range, std::vector<pmix_info_t>& infos) const {
    const pmix_proc_t source = process(PMIX_RANK_UNDEF);
    Done done;
    done.wait(PMIx_Notify_event(event, &source, range, infos.data(), infos.size(), Done::callback, &done),
              "PMIx_Notify_event");
    for (pmix_info_t& one : infos)
        PMIX_INFO_DESTRUCT(&one);
}

void PmixJob::report(pmix_status_t event, pmix_proc_t affected) const {
    std::vector<pmix_info_t> infos{info(PMIX_EVENT_AFFECTED_PROC, &affected, PMIX_PROC)};
    notify(event, PMIX_RANGE_NAMESPACE, infos);
}

void PmixJob::report(pmix_status_t event, std::vector<pmix_proc_t> affected) const {
    const pmix_data_array_t array{.type = PMIX_PROC, .size = affected.size(), .array = affected.data()};
    std::vector<pmix_info_t> infos{info(PMIX_EVENT_AFFECTED_PROCS, &array, PMIX_DATA_ARRAY)};
    notify(event, PMIX_RANGE_NAMESPACE, infos);
}

void PmixJob::report_to(std::uint32_t rank, pmix_status_t event, pmix_proc_t affected) const {
    const pmix_proc_t target = process(rank);
    std::vector<pmix_info_t> infos{info(PMIX_EVENT_AFFECTED_PROC, &affected, PMIX_PROC),
                                   info(PMIX_EVENT_CUSTOM_RANGE, &target, PMIX_PROC)};
    notify(event, PMIX_RANGE_CUSTOM, infos);
}

void PmixJob::report_nonsense(pmix_status_t event) const {
    std::vector<pmix_info_t> infos{info(PMIX_EVENT_AFFECTED_PROC, "rank 0", PMIX_STRING)};
    notify(event, PMIX_RANGE_NAMESPACE, infos);
    infos = {info(PMIX_EVENT_AFFECTED_PROCS, "all", PMIX_STRING)};
    notify(event, PMIX_RANGE_NAMESPACE, infos);
    infos.clear();
    notify(event, PMIX_RANGE_NAMESPACE, infos);
}

}  // namespace coppice::testing
