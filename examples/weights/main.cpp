// Brings a file to all ranks of all hosts, and goes on when ranks die: any of them, the one that sends included.
//
//   coppice-run -n 8 --hosts 4 --kill 3@500ms --kill 0@1s examples/weights --size 512M
//   coppice-run -n 8 examples/weights --file model.safetensors
//
// The pattern to copy is in Delivery::to_all(): a broadcast is here at all survivors, or all of them are told that the root
// failed. So all survivors lack the same pieces, and all ask the same next root for them.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <coppice/coppice.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "sha256.hpp"

namespace {

using Clock = std::chrono::steady_clock;

struct Options {
    std::string file;
    std::uint64_t size = std::uint64_t{256} << 20;
    std::uint64_t piece = std::uint64_t{16} << 20;
};

// What the root sends: a file that every rank that may become root can read, or numbers.
class Source {
  public:
    explicit Source(const Options& options) : options_(options) {}

    std::uint64_t size() {
        if (options_.file.empty()) return options_.size;
        open();
        file_.seekg(0, std::ios::end);
        return static_cast<std::uint64_t>(file_.tellg());
    }
    void read(std::uint64_t at, std::span<std::byte> to) {
        if (options_.file.empty()) {
            for (std::size_t i = 0; i < to.size(); ++i)
                to[i] = static_cast<std::byte>(((at + i) * 0x9e3779b97f4a7c15) >> 56);
            return;
        }
        open();
        file_.seekg(static_cast<std::streamoff>(at));
        file_.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
        if (!file_) throw std::runtime_error(options_.file + " can't be read");
    }

  private:
    void open() {
        if (!file_.is_open()) file_.open(options_.file, std::ios::binary);
        if (!file_) throw std::runtime_error(options_.file + " can't be opened");
    }

    const Options& options_;
    std::ifstream file_;
};

class Delivery {
  public:
    Delivery(coppice::Group& group, const Options& options) : group_(group), source_(options), piece_(options.piece) {}

    std::vector<std::byte> run() {
        std::uint64_t size = 0;
        to_all({0}, [&](std::uint64_t) {
            if (root_ == group_.rank()) size = source_.size();
            return std::as_writable_bytes(std::span(&size, 1));
        });
        group_.barrier();  // nobody begins with the pieces while others still look for a root that knows the size

        std::vector<std::byte> all(size);
        std::vector<std::uint64_t> pieces;
        for (std::uint64_t at = 0; at < size; at += piece_)
            pieces.push_back(at);
        have_ = 0;
        size_ = size;
        to_all(pieces, [&](std::uint64_t at) {
            const auto piece = std::span(all).subspan(at, std::min(piece_, size - at));
            if (root_ == group_.rank()) source_.read(at, piece);
            return piece;
        });
        return all;
    }

  private:
    // Pass by pass, each with the next rank as root, until nothing is missing. All survivors lack the same pieces. A root that
    // dies may have begun the pieces behind the one that failed; so that all count alike, they are asked of it, too, before it
    // is the next one's turn.
    template <class Buffer>
    void to_all(std::vector<std::uint64_t> missing, const Buffer& buffer_of) {
        for (root_ = 0; !missing.empty(); root_ = (root_ + 1) % group_.size()) {
            std::vector<std::uint64_t> still_missing;
            for (const std::uint64_t piece : missing)
                if (!take(buffer_of(piece))) still_missing.push_back(piece);
            missing = std::move(still_missing);
        }
    }

    bool take(std::span<std::byte> buffer) {
        std::size_t received = 0;
        const coppice::Status status = group_.try_broadcast(buffer, root_, received);
        if (status == coppice::Status::kRootFailed) return false;
        if (status != coppice::Status::kOk) throw coppice::Error(status);
        have_ += received;
        if (root_ == group_.rank() && size_ > 0) show();
        return true;
    }

    // A bar on a terminal, else a line for each eighth.
    void show() {
        constexpr std::uint64_t kWidth = 32;
        const std::uint64_t width = have_ * kWidth / size_;
        const bool is_terminal = isatty(STDOUT_FILENO) != 0;
        if (!is_terminal && width / 4 == shown_ / 4 && have_ < size_) return;
        shown_ = width;
        const double mib = static_cast<double>(have_) / (1 << 20);
        const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
        std::printf("%sweights: [%-32s] %.1f of %.1f MiB, %.0f MiB/s, from rank %u%s", is_terminal ? "\r" : "",
                    std::string(width, '#').c_str(), mib, static_cast<double>(size_) / (1 << 20), mib / seconds, root_,
                    is_terminal && have_ < size_ ? "" : "\n");
        std::fflush(stdout);
    }

    coppice::Group& group_;
    Source source_;
    std::uint64_t piece_;
    Clock::time_point start_ = Clock::now();
    std::uint32_t root_ = 0;
    std::uint64_t have_ = 0;
    std::uint64_t size_ = 0;
    std::uint64_t shown_ = 0;
};

// Whether all live ranks have the same digest.
bool agreed(coppice::Group& group, const weights::Digest& digest) {
    for (std::size_t at = 0; at < digest.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, digest.data() + at, sizeof word);
        const std::uint64_t least = group.agree(word, coppice::Operation::kMin).first;
        const std::uint64_t greatest = group.agree(word, coppice::Operation::kMax).first;
        if (least != greatest) return false;
    }
    return true;
}

void run(const Options& options) {
    coppice::Context context = coppice::Context::create();
    coppice::Group group = coppice::Group::create(context);
    const std::vector<std::byte> all = Delivery(group, options).run();
    const weights::Digest digest = weights::sha256(all);
    std::printf("weights: rank %u: %zu bytes, sha256 %s\n", group.rank(), all.size(), weights::to_hex(digest).c_str());
    std::fflush(stdout);
    if (!agreed(group, digest)) throw std::runtime_error("the ranks differ");
    const std::vector<std::uint32_t> failed = group.failed();
    std::uint32_t first = 0;  // of those that live
    while (std::ranges::binary_search(failed, first))
        ++first;
    if (group.rank() == first)
        std::printf("weights: the same at all live ranks, %zu of %u\n", group.size() - failed.size(), group.size());
    group.leave();
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    CLI::App app("Brings a file to all ranks, and goes on when ranks die.", "weights");
    app.add_option("--file", options.file, "to send; every rank that may have to send it reads it there")
        ->check(CLI::ExistingFile);
    app.add_option("--size", options.size, "without a file: so many bytes, or with K, M or G")
        ->transform(CLI::AsSizeValue(false));
    app.add_option("--piece", options.piece, "bytes of one broadcast")
        ->transform(CLI::AsSizeValue(false))
        ->check(CLI::PositiveNumber);
    CLI11_PARSE(app, argc, argv);
    try {
        run(options);
        return 0;
    } catch (const std::exception& trouble) {
        std::fprintf(stderr, "weights: %s\n", trouble.what());
        return 1;
    }
}
