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

#include "bootstrap/pmix_library.hpp"
#include "bootstrap/pmix_reports.hpp"

namespace coppice::bootstrap {
namespace {

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

class PmixStore final : public Store {
  public:
    PmixStore(const Library& library, const Process& self) : library_(library), self_(self) {}
    ~PmixStore() override {
        // With a fence under way it would wait for it.
        if (!stuck_) library_.finalize(nullptr, 0);
    }

    // Until then nobody may ask for the size.
    Result<void> learn_size() {
        Process all = self_;
        all.rank = COPPICE_PMIX_WILDCARD;
        Value* value = nullptr;
        const int status = library_.get(&all, COPPICE_PMIX_JOB_SIZE, nullptr, 0, &value);
        if (status != COPPICE_PMIX_SUCCESS || value == nullptr || value->type != COPPICE_PMIX_UINT32) {
            return fail(COPPICE_ERR_BOOTSTRAP, "PMIx does not say how many ranks the job has: {}",
                        library_.error(status));
        }
        size_ = value->data.uint32;
        std::free(value);
        if (size_ > self_.rank) return {};
        return fail(COPPICE_ERR_BOOTSTRAP, "PMIx says that this process is rank {} of {}", self_.rank, size_);
    }

    Rank rank() const override { return Rank(self_.rank); }
    std::uint32_t size() const override { return size_; }
    const char* name() const override { return "pmix"; }
    std::string carrier() const override { return "PMIx"; }

    Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
        std::vector<std::byte> copy(bytes.begin(), bytes.end());
        Value value{};
        value.type = COPPICE_PMIX_BYTE_OBJECT;
        value.data.object.bytes = reinterpret_cast<char*>(copy.data());
        value.data.object.size = copy.size();
        int status = library_.put(COPPICE_PMIX_SCOPE_GLOBAL, key.c_str(), &value);
        if (status == COPPICE_PMIX_SUCCESS) status = library_.commit();
        if (status == COPPICE_PMIX_SUCCESS) return {};
        return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: PMIx does not take {} bytes: {}", self_.rank, bytes.size(),
                    library_.error(status));
    }

    Result<void> fence(std::uint64_t deadline_ns) override {
        const auto fence = std::make_shared<Fence>();
        const Info collect = flag(COPPICE_PMIX_COLLECT_DATA);
        Process all = self_;
        all.rank = COPPICE_PMIX_WILDCARD;
        auto argument = std::make_unique<std::shared_ptr<Fence>>(fence);
        int status = library_.fence_nb(&all, 1, &collect, 1, fence_done, argument.get());
        if (status == COPPICE_PMIX_SUCCESS) {
            [[maybe_unused]] const auto given_away = argument.release();
            std::unique_lock lock(fence->mutex);
            const std::chrono::steady_clock::time_point end(
                std::chrono::nanoseconds(std::min<std::uint64_t>(deadline_ns, INT64_MAX)));
            stuck_ = !fence->changed.wait_until(lock, end, [&] { return fence->done; });
            if (stuck_) {
                return fail(COPPICE_ERR_BOOTSTRAP,
                            "rank {}: not all of the {} ranks showed up before the deadline, and PMIx does not say "
                            "which: look for one that does not make this group, or has ended",
                            self_.rank, size_);
            }
            status = fence->status;
        }
        if (status == COPPICE_PMIX_SUCCESS) return {};
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "rank {}: the exchange through PMIx broke off: {}; is the launcher still there?", self_.rank,
                    library_.error(status));
    }

    Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key,
                                                      std::uint64_t /*deadline_ns*/) override {
        // The fence has brought everything that there is: nothing of a rank means that it died before.
        const Info here = flag(COPPICE_PMIX_OPTIONAL);
        Process peer = self_;
        peer.rank = rank.value;
        Value* value = nullptr;
        const int status = library_.get(&peer, key.c_str(), &here, 1, &value);
        if (status == COPPICE_PMIX_NOT_FOUND) return std::optional<std::vector<std::byte>>();
        if (status != COPPICE_PMIX_SUCCESS || value == nullptr) return not_told(rank, status);
        auto bytes = bytes_of(*value);
        if (bytes) std::free(value->data.object.bytes);
        std::free(value);
        if (!bytes) return not_told(rank, status);
        return bytes;
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
            Process peer = self_;
            peer.rank = rank.value;
            auto argument = std::make_unique<std::shared_ptr<Question>>(question_);
            const int status = library_.get_nb(&peer, key.c_str(), nullptr, 0, answered, argument.get());
            if (status == COPPICE_PMIX_SUCCESS) [[maybe_unused]]
                const auto given_away = argument.release();
            else
                question_->done = true, question_->status = status;
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

    Result<std::unique_ptr<Reports>> reports() override { return pmix::listen(library_, self_, size_); }

  private:
    tl::unexpected<Error> not_told(Rank rank, int status) const {
        return fail(COPPICE_ERR_BOOTSTRAP, "rank {}: PMIx does not tell what rank {} has put: {}", self_.rank,
                    rank.value, library_.error(status));
    }

    const Library& library_;
    Process self_;
    std::uint32_t size_ = 0;
    bool stuck_ = false;
    std::shared_ptr<Question> question_;  // the last one, unless it is answered
};

}  // namespace

bool has_pmix_environment() {
    return std::getenv("PMIX_NAMESPACE") != nullptr && std::getenv("PMIX_RANK") != nullptr;
}

Result<std::unique_ptr<Store>> connect_to_pmix() {
    const Result<Library>& library = pmix::library();
    if (!library) return tl::unexpected(library.error());
    Process self{};
    if (const int status = library->init(&self, nullptr, 0); status != COPPICE_PMIX_SUCCESS) {
        return fail(COPPICE_ERR_BOOTSTRAP,
                    "{} can't talk to the launcher's server of PMIx: {}; has it ended, or is it of a version that the "
                    "library does not know?",
                    library->version(), library->error(status));
    }
    auto store = std::make_unique<PmixStore>(*library, self);
    if (auto known = store->learn_size(); !known) return tl::unexpected(known.error());
    return std::unique_ptr<Store>(std::move(store));
}

}  // namespace coppice::bootstrap
