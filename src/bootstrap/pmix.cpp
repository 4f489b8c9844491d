#include "bootstrap/pmix.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>

#include "base/clock.hpp"
#include "base/time_point.hpp"
#include "bootstrap/pmix_caller.hpp"
#include "bootstrap/pmix_library.hpp"
#include "bootstrap/pmix_reports.hpp"

namespace coppice::bootstrap {
namespace {

using pmix::Caller;
using pmix::Info;
using pmix::Library;
using pmix::Process;
using pmix::Value;

Info flag(const char* key) {
    Info info{};
    std::strncpy(info.key, key, sizeof info.key - 1);
    info.value.type = COPPICE_PMIX_BOOL;
    info.value.data.flag = 1;
    return info;
}

// Of a fence under way. The library's thread may end it after its caller has given up.
struct Fence {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    int status = 0;
};

void fence_done(int status, void* argument) {
    const std::unique_ptr<std::shared_ptr<Fence>> owned(static_cast<std::shared_ptr<Fence>*>(argument));
    Fence& fence = **owned;
    const std::lock_guard lock(fence.mutex);
    fence.done = true;
    fence.status = status;
    fence.changed.notify_all();
}

std::optional<std::vector<std::byte>> bytes_of(const Value& value) {
    if (value.type != COPPICE_PMIX_BYTE_OBJECT) return std::nullopt;
    const auto* const bytes = reinterpret_cast<const std::byte*>(value.data.object.bytes);
    return std::vector<std::byte>(bytes, bytes + value.data.object.size);
}

// For what a rank puts. The library's thread may answer it after its caller has given up, or never.
struct Question {
    Question(Rank asked, std::string what) : rank(asked), key(std::move(what)) {}

    const Rank rank;
    const std::string key;
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    int status = 0;
    std::optional<std::vector<std::byte>> answer;
};

// Called from within foreign code: nothing may be thrown through it.
void answered(int status, Value* value, void* argument) try {
    const std::unique_ptr<std::shared_ptr<Question>> owned(static_cast<std::shared_ptr<Question>*>(argument));
    Question& question = **owned;
    const std::lock_guard lock(question.mutex);
    question.done = true;
    question.status = status;
    if (status == COPPICE_PMIX_SUCCESS && value != nullptr) question.answer = bytes_of(*value);
    question.changed.notify_all();
} catch (const std::bad_alloc&) {
    // The question stays open, and its caller's deadline passes.
}

// What a call of the library has brought.
struct Answer {
    int status = 0;
    std::optional<std::vector<std::byte>> bytes;
};

// As it is after the fence: what there is is here, and the server is not asked.
Answer look_up(const Library& library, const Process& peer, const std::string& key) {
    const Info here = flag(COPPICE_PMIX_OPTIONAL);
    Value* value = nullptr;
    Answer answer{.status = library.get(&peer, key.c_str(), &here, 1, &value), .bytes = {}};
    if (answer.status != COPPICE_PMIX_SUCCESS || value == nullptr) return answer;
    answer.bytes = bytes_of(*value);
    if (answer.bytes) std::free(value->data.object.bytes);
    std::free(value);
    return answer;
}

int put_and_commit(const Library& library, const std::string& key, std::vector<std::byte>& bytes) {
    Value value{};
    value.type = COPPICE_PMIX_BYTE_OBJECT;
    value.data.object.bytes = reinterpret_cast<char*>(bytes.data());
    value.data.object.size = bytes.size();
    const int status = library.put(COPPICE_PMIX_SCOPE_GLOBAL, key.c_str(), &value);
    return status == COPPICE_PMIX_SUCCESS ? library.commit() : status;
}

// The job's size; nullopt where the server tells none.
std::optional<std::uint32_t> job_size(const Library& library, Process all, int& status) {
    all.rank = COPPICE_PMIX_WILDCARD;
    Value* value = nullptr;
    status = library.get(&all, COPPICE_PMIX_JOB_SIZE, nullptr, 0, &value);
    if (status != COPPICE_PMIX_SUCCESS || value == nullptr) return std::nullopt;
    std::optional<std::uint32_t> size;
    if (value->type == COPPICE_PMIX_UINT32) size = value->data.uint32;
    std::free(value);
    return size;
}

// A session as it begins.
struct Beginning {
    int status = 0;
    Process self{};
    int size_status = 0;
    std::optional<std::uint32_t> size;
};

class PmixStore final : public Store {
  public:
    // Until it has begun nobody may ask for anything else. The caller's last call ends the session where `has_begun` says so.
    PmixStore(const Library& library, std::unique_ptr<Caller> caller, std::shared_ptr<bool> has_begun,
              std::uint64_t deadline_ns)
        : library_(library), caller_(std::move(caller)), has_begun_(std::move(has_begun)), deadline_ns_(deadline_ns) {}
    ~PmixStore() override {
        // With a fence under way it would wait for it.
        if (!is_fencing_) caller_->goodbye(deadline_ns_);
    }

    Result<void> begin() {
        const auto begun = caller_->call(deadline_ns_, [library = library_, has_begun = has_begun_] {
            Beginning made;
            made.status = library.init(&made.self, nullptr, 0);
            *has_begun = made.status == COPPICE_PMIX_SUCCESS;
            if (*has_begun) made.size = job_size(library, made.self, made.size_status);
            return made;
        });
        if (!begun) return hangs("for a session");
        if (begun->status != COPPICE_PMIX_SUCCESS) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "{} can't talk to the launcher's server of PMIx: {}; has it ended, or is it of a version that "
                        "the library does not know?",
                        library_.version(), library_.error(begun->status));
        }
        if (!begun->size) {
            return fail(COPPICE_ERR_BOOTSTRAP, "PMIx does not say how many ranks the job has: {}",
                        library_.error(begun->size_status));
        }
        self_ = begun->self;
        size_ = *begun->size;
        if (size_ > self_.rank) return {};
        return fail(COPPICE_ERR_BOOTSTRAP, "PMIx says that this process is rank {} of {}", self_.rank, size_);
    }

    Rank rank() const override { return Rank(self_.rank); }
    std::uint32_t size() const override { return size_; }
    const char* name() const override { return "pmix"; }
    std::string carrier() const override { return "PMIx"; }

    Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
        const auto status = caller_->call(
            deadline_ns_, [library = library_, key, copy = std::vector(bytes.begin(), bytes.end())]() mutable {
                return put_and_commit(library, key, copy);
            });
        if (!status) return hangs("to keep some bytes");
        if (*status == COPPICE_PMIX_SUCCESS) return {};
        return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: PMIx does not take {} bytes: {}", self_.rank, bytes.size(),
                    library_.error(*status));
    }

    Result<void> fence(std::uint64_t deadline_ns) override {
        const auto fence = std::make_shared<Fence>();
        is_fencing_ = true;
        const auto begun = caller_->call(deadline_ns, [library = library_, self = self_, fence] {
            const Info collect = flag(COPPICE_PMIX_COLLECT_DATA);
            Process all = self;
            all.rank = COPPICE_PMIX_WILDCARD;
            auto argument = std::make_unique<std::shared_ptr<Fence>>(fence);
            const int status = library.fence_nb(&all, 1, &collect, 1, fence_done, argument.get());
            if (status == COPPICE_PMIX_SUCCESS) [[maybe_unused]]
                const auto given_away = argument.release();
            return status;
        });
        if (!begun) return hangs("for a fence");
        int status = *begun;
        if (status == COPPICE_PMIX_SUCCESS) {
            std::unique_lock lock(fence->mutex);
            if (!fence->changed.wait_until(lock, time_of(deadline_ns), [&] { return fence->done; })) {
                return fail(COPPICE_ERR_BOOTSTRAP,
                            "rank {}: not all of the {} ranks showed up before the deadline, and PMIx does not say "
                            "which: look for one that does not make this group, or has ended, and whether the "
                            "launcher's server is stopped, or hangs",
                            self_.rank, size_);
            }
            status = fence->status;
        }
        is_fencing_ = false;
        if (status == COPPICE_PMIX_SUCCESS) return {};
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "rank {}: the exchange through PMIx broke off: {}; is the launcher still there?", self_.rank,
                    library_.error(status));
    }

    // The fence has brought everything that there is: nothing of a rank means that it died before.
    Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key,
                                                      std::uint64_t deadline_ns) override {
        auto answer = caller_->call(
            deadline_ns, [library = library_, peer = process(rank), key] { return look_up(library, peer, key); });
        if (!answer) return hangs(fmt::format("for what rank {} has put", rank.value));
        return told(rank, std::move(*answer));
    }

    // The library's thread is waited for once, and not for each of them.
    Result<Answers> get_all(std::span<const Rank> ranks, const std::string& key, std::uint64_t deadline_ns) override {
        auto answers = caller_->call(
            deadline_ns, [library = library_, self = self_, key, peers = std::vector(ranks.begin(), ranks.end())] {
                std::vector<Answer> made;
                for (const Rank peer : peers) {
                    Process one = self;
                    one.rank = peer.value;
                    made.push_back(look_up(library, one, key));
                }
                return made;
            });
        if (!answers) return hangs(fmt::format("for what {} ranks have put", ranks.size()));
        Answers all;
        for (std::size_t i = 0; i < ranks.size(); ++i) {
            auto got = told(ranks[i], std::move((*answers)[i]));
            if (!got) return tl::unexpected(std::move(got.error()));
            all.push_back(std::move(*got));
        }
        return all;
    }

    bool waits_for_single_ranks() const override { return true; }

    // A server takes a client that has ended its session for one that is gone, and its fences do without it.
    bool fences_in_later_sessions() const override { return false; }

    // The server answers when the rank has put it, at once when the rank has no session, after some time of its own (of OpenPMIx
    // two seconds) that this was too long for it, that it does not know the rank, while another host's server is between two
    // sessions of it, and never when the rank has died: so the question stays open from one call to the next, and is asked anew.
    Result<std::optional<std::vector<std::byte>>> wait_for(Rank rank, const std::string& key) override {
        constexpr std::chrono::milliseconds kMoment{100};
        if (!question_ || question_->rank != rank || question_->key != key) {
            question_ = std::make_shared<Question>(rank, key);
            const auto ask = [library = library_, peer = process(rank), question = question_] {
                auto argument = std::make_unique<std::shared_ptr<Question>>(question);
                const int status = library.get_nb(&peer, question->key.c_str(), nullptr, 0, answered, argument.get());
                if (status == COPPICE_PMIX_SUCCESS) [[maybe_unused]]
                    const auto given_away = argument.release();
                return status;
            };
            const auto status = caller_->call(deadline_ns_, ask);
            if (!status) return hangs(fmt::format("for what rank {} puts", rank.value));
            if (*status != COPPICE_PMIX_SUCCESS) question_->done = true, question_->status = *status;
        }
        const std::shared_ptr<Question> question = question_;
        std::unique_lock lock(question->mutex);
        if (!question->changed.wait_for(lock, kMoment, [&] { return question->done; }))
            return std::optional<std::vector<std::byte>>();
        question_.reset();
        if (question->status == COPPICE_PMIX_SUCCESS && question->answer) return std::move(question->answer);
        constexpr std::array kNotYet{COPPICE_PMIX_NOT_FOUND, COPPICE_PMIX_PROCESS_NOT_FOUND, COPPICE_PMIX_TIMEOUT};
        if (std::ranges::find(kNotYet, question->status) == kNotYet.end()) return not_told(rank, question->status);
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return std::optional<std::vector<std::byte>>();
    }

    Result<std::unique_ptr<Reports>> reports() override {
        const auto listen = [library = library_, self = self_, size = size_] {
            return pmix::listen(library, self, size);
        };
        auto made = caller_->call(std::max(deadline_ns_, now_ns() + pmix::kListenTime), listen);
        if (!made) return hangs("whether it tells of deaths");
        return std::move(*made);
    }

  private:
    Result<std::optional<std::vector<std::byte>>> told(Rank rank, Answer answer) const {
        if (answer.status == COPPICE_PMIX_NOT_FOUND) return std::optional<std::vector<std::byte>>();
        if (!answer.bytes) return not_told(rank, answer.status);
        return std::move(answer.bytes);
    }
    tl::unexpected<Error> not_told(Rank rank, int status) const {
        return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: PMIx does not tell what rank {} has put: {}", self_.rank,
                    rank.value, library_.error(status));
    }
    tl::unexpected<Error> hangs(std::string_view asked) const {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "the launcher's server of PMIx was asked {}, and has not answered before the deadline: it is "
                    "stopped, or hangs",
                    asked);
    }
    Process process(Rank rank) const {
        Process one = self_;
        one.rank = rank.value;
        return one;
    }

    const Library& library_;
    const std::unique_ptr<Caller> caller_;
    const std::shared_ptr<bool> has_begun_;  // of the caller's thread
    const std::uint64_t deadline_ns_;
    Process self_{};
    std::uint32_t size_ = 0;
    bool is_fencing_ = false;
    std::shared_ptr<Question> question_;  // the last one, unless it is answered
};

}  // namespace

bool has_pmix_environment() {
    return std::getenv("PMIX_NAMESPACE") != nullptr && std::getenv("PMIX_RANK") != nullptr;
}

Result<std::unique_ptr<Store>> connect_to_pmix(std::uint64_t deadline_ns) {
    const Result<Library>& library = pmix::library();
    if (!library) return tl::unexpected(library.error());
    return connect_to_pmix(*library, deadline_ns, Caller::kLeast);
}

Result<std::unique_ptr<Store>> connect_to_pmix(const Library& library, std::uint64_t deadline_ns,
                                               std::uint64_t least_ns) {
    const auto has_begun = std::make_shared<bool>(false);
    const auto end = [library, has_begun] {
        if (*has_begun) library.finalize(nullptr, 0);
    };
    auto caller = Caller::start(deadline_ns, end, least_ns);
    if (!caller) return tl::unexpected(std::move(caller.error()));
    auto store = std::make_unique<PmixStore>(library, std::move(*caller), has_begun, deadline_ns);
    if (auto begun = store->begin(); !begun) return tl::unexpected(std::move(begun.error()));
    return std::unique_ptr<Store>(std::move(store));
}

}  // namespace coppice::bootstrap
