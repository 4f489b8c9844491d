#include "bootstrap/pmi.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <mutex>

#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/pmi_connection.hpp"

namespace coppice::bootstrap {
namespace {

constexpr const char* kDescriptor = "PMI_FD";
constexpr const char* kRank = "PMI_RANK";
constexpr const char* kSize = "PMI_SIZE";

std::string to_hex(std::span<const std::byte> bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string text;
    for (const std::byte byte : bytes) {
        text += kDigits[std::to_integer<unsigned>(byte) >> 4U];
        text += kDigits[std::to_integer<unsigned>(byte) & 15U];
    }
    return text;
}

Result<std::uint32_t> number(const char* variable) {
    const char* const text = std::getenv(variable);
    const std::string_view digits(text == nullptr ? "" : text);
    std::uint32_t value = 0;
    const auto [end, code] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (code == std::errc() && end == digits.data() + digits.size() && value <= INT32_MAX) return value;
    return fail(COPPICE_ERR_CONFIG, "{}='{}' is not what a launcher sets: it is a number", variable, digits);
}

bool is_hydra() {
    return std::getenv("HYDI_CONTROL_FD") != nullptr;
}

// This process's, and not that of a child that it has forked.
class Session {
  public:
    ~Session() {
        if (connection_ && ::getpid() == process_) connection_->say_goodbye();
    }
    void group_is_made() {
        if (!is_hydra()) return;
        connection_->say_goodbye();
        is_over_ = true;
    }

    Result<PmiConnection*> connect(std::uint32_t rank, std::uint64_t deadline_ns) {
        if (is_over_) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "mpiexec.hydra brings the ranks of one group together: make further ones with "
                        "coppice_group_options_t.exchange, by broadcasts in the first group");
        }
        if (connection_) return &*connection_;
        const auto descriptor = number(kDescriptor);
        if (!descriptor) return tl::unexpected(descriptor.error());
        if (uses_mpi()) {
            return fail(COPPICE_ERR_BOOTSTRAP,
                        "an MPI of this process holds the launcher's connection ({}), of which there is one: set "
                        "coppice_group_options_t.exchange to a function that calls MPI_Allgather",
                        kDescriptor);
        }
        process_ = ::getpid();
        connection_.emplace(static_cast<int>(*descriptor), rank);
        if (auto agreed = connection_->shake_hands(deadline_ns); !agreed) return tl::unexpected(agreed.error());
        return &*connection_;
    }

  private:
    static bool uses_mpi() {
        const auto initialized = reinterpret_cast<int (*)(int*)>(::dlsym(RTLD_DEFAULT, "MPI_Initialized"));
        int flag = 0;
        return initialized != nullptr && initialized(&flag) == 0 && flag != 0;
    }

    std::optional<PmiConnection> connection_;
    pid_t process_ = -1;
    bool is_over_ = false;
};

class PmiStore final : public Store {
  public:
    PmiStore(Session& session, PmiConnection& connection, std::unique_lock<std::mutex> lock, std::uint32_t rank,
             std::uint32_t size, std::uint64_t deadline_ns)
        : session_(session),
          connection_(connection),
          lock_(std::move(lock)),
          rank_(rank),
          size_(size),
          deadline_ns_(deadline_ns) {}
    ~PmiStore() override { session_.group_is_made(); }

    Rank rank() const override { return Rank(rank_); }
    std::uint32_t size() const override { return size_; }
    const char* name() const override { return "pmi"; }
    std::string carrier() const override { return "PMI"; }

    Result<void> put(const std::string& key, std::span<const std::byte> bytes) override {
        std::vector<std::byte> total;
        append(total, static_cast<std::uint32_t>(bytes.size()));
        const std::string head = to_hex(total);
        for (std::uint32_t part = 0; part == 0 || !bytes.empty(); ++part) {
            const auto piece = bytes.first(std::min(bytes.size(), largest()));
            bytes = bytes.subspan(piece.size());
            const auto done =
                connection_.demand(fmt::format("cmd=put kvsname={} key={} value={}{}", connection_.space(),
                                               name(Rank(rank_), key, part), head, to_hex(piece)),
                                   "put_result", deadline_ns_);
            if (!done) return tl::unexpected(done.error());
        }
        return {};
    }

    Result<void> fence(std::uint64_t deadline_ns) override {
        const auto done = connection_.demand("cmd=barrier_in", "barrier_out", deadline_ns);
        if (!done) return tl::unexpected(done.error());
        return {};
    }

    Result<std::optional<std::vector<std::byte>>> get(Rank rank, const std::string& key,
                                                      std::uint64_t deadline_ns) override {
        std::vector<std::byte> bytes;
        std::uint32_t total = 0;
        for (std::uint32_t part = 0; part == 0 || bytes.size() < total; ++part) {
            const auto line =
                connection_.ask(fmt::format("cmd=get kvsname={} key={}", connection_.space(), name(rank, key, part)),
                                "get_result", deadline_ns);
            if (!line) return tl::unexpected(line.error());
            if (pmi_word(*line, "rc") != "0") return std::optional<std::vector<std::byte>>();
            const std::string_view text = pmi_word(*line, "value");
            if (!take_pmi_value(text, bytes, total)) {
                return fail(COPPICE_ERR_BOOTSTRAP, "PMI gave garbage in the place of rank {}: \"{}\"", rank.value,
                            text.substr(0, 80));
            }
        }
        return std::optional(std::move(bytes));
    }

  private:
    std::size_t largest() const { return (connection_.largest_value() - kPmiTotalDigits) / 2; }
    static std::string name(Rank rank, const std::string& key, std::uint32_t part) {
        return fmt::format("{}.{}.{}", key, rank.value, part);
    }

    Session& session_;
    PmiConnection& connection_;
    std::unique_lock<std::mutex> lock_;  // one group at a time
    std::uint32_t rank_;
    std::uint32_t size_;
    std::uint64_t deadline_ns_;
};

}  // namespace

bool has_pmi_environment() {
    return std::getenv(kDescriptor) != nullptr;
}

Result<std::unique_ptr<Store>> connect_to_pmi(std::uint64_t deadline_ns) {
    static std::mutex mutex;
    static Session session;
    std::unique_lock lock(mutex);
    const auto rank = number(kRank);
    if (!rank) return tl::unexpected(rank.error());
    const auto size = number(kSize);
    if (!size) return tl::unexpected(size.error());
    if (*rank >= *size) return fail(COPPICE_ERR_CONFIG, "{}={} is not below {}={}", kRank, *rank, kSize, *size);
    const auto connection = session.connect(*rank, deadline_ns);
    if (!connection) return tl::unexpected(connection.error());
    return std::unique_ptr<Store>(
        std::make_unique<PmiStore>(session, **connection, std::move(lock), *rank, *size, deadline_ns));
}

}  // namespace coppice::bootstrap
