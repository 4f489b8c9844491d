// The example `cg` with a choice of how its iterations are agreed upon, and the time that this takes; cg.sh makes the table.
//
// Each sum of an iteration is an agreement that all ranks are well. What is added up lies in memory that the ranks share, the same
// way whatever agrees, so that the algorithms differ in nothing else:
//
//   library                as the library does it: published on one host; ERA with COPPICE_HIERARCHY=flat
//   era, two-phase         the machine alone, over boxes in shared memory, along a binary tree: without an engine or a transport,
//                          so these two compare with each other and not with `library`
//
// Whatever agrees, the library notices the death, and renews the group: the older algorithms have no means of their own.
//
//   coppice-run -n 8 build/bench/cg_agreed --agree two-phase --kill 5@40
#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "../examples/cg/solver.hpp"
#include "agreement_machines.hpp"

namespace {

namespace protocol = coppice::protocol;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

struct Options {
    std::string agree = "library";
    std::size_t grid = 24;
    std::uint64_t sources = 2;
    std::uint32_t victim = UINT32_MAX;
    std::uint64_t dies_at = 0;
};

// One machine of this rank among the ranks of `group`, with a wire of its own: a box from each rank to each. A box holds one
// message, which is enough: without deaths a rank says nothing more to another one before that has answered.
class Bare {
  public:
    // Collective. Throws RankDied.
    Bare(coppice::Group& group, const std::string& algorithm)
        : group_(group),
          ranks_(group.size()),
          self_(group.rank()),
          plan_{.tree = *protocol::AgreementTree::make(*protocol::parse_agreement_tree("binary"),
                                                       static_cast<std::uint32_t>(ranks_), nullptr, {}),
                .window = 1,
                .max_value = 8},
          wire_(group, ranks_ * ranks_, sizeof(Letter) / sizeof(double)),
          taken_(ranks_) {
        const coppice::Rank self(static_cast<std::uint32_t>(self_));
        if (algorithm == "era") {
            machine_ = std::make_unique<bench::Era>(plan_, self);
        } else {
            machine_ = std::make_unique<bench::Phased>(plan_, self, 2);
        }
        if (const std::uint32_t parent = plan_.tree.parent(self.value); parent != protocol::AgreementTree::kNobody)
            neighbours_.push_back(parent);
        for (std::uint32_t i = 0; i < plan_.tree.child_count(self.value); ++i)
            neighbours_.push_back(plan_.tree.child(self.value, i));
    }

    // Throws RankDied.
    void agree() {
        const std::uint64_t number = machine_->ended();
        machine_->start(1);
        send_all();
        std::uint32_t fruitless = 0;
        for (std::uint64_t poll = 1; machine_->ended() == number; ++poll) {
            if (receive_all()) {
                fruitless = 0;
            } else if (++fruitless < kPatience) {
                sched_yield();
            } else {
                std::this_thread::sleep_for(std::chrono::microseconds(20));  // the cores are wanted by others
            }
            send_all();
            std::size_t dead = 0;
            if (poll % 64 == 0 && group_.try_failed({}, dead) == coppice::Status::kOk && dead > 0) throw cg::RankDied();
        }
        if (machine_->last_value() != 1) throw std::runtime_error("an agreement on something that no rank has said");
    }

  private:
    static constexpr std::uint32_t kPatience = 200;

    struct Letter {
        bench::Header header;
        std::uint64_t bytes = 0;
        std::array<std::byte, 80> body;
    };

    void send_all() {
        bench::Header header{};
        while (const auto to = machine_->next_send(header, body_)) {
            Letter letter{.header = header, .bytes = body_.size(), .body = {}};
            if (body_.size() > letter.body.size()) throw std::runtime_error("a long message");
            std::ranges::copy(body_, letter.body.begin());
            const std::size_t box = self_ * ranks_ + to->value;
            std::memcpy(static_cast<void*>(wire_.outgoing(box)), &letter, sizeof letter);
            wire_.post(box, wire_.posted(box) + 1);
            header = {};
        }
    }
    bool receive_all() {
        bool is_any = false;
        for (const std::uint32_t from : neighbours_) {
            const std::size_t box = from * ranks_ + self_;
            if (wire_.posted(box) == taken_[from]) continue;
            if (wire_.posted(box) != ++taken_[from]) throw std::runtime_error("a message was written over");
            Letter letter;
            std::memcpy(static_cast<void*>(&letter), wire_.outgoing(box), sizeof letter);
            machine_->receive(coppice::Rank(from), letter.header, std::span(letter.body).first(letter.bytes));
            is_any = true;
        }
        return is_any;
    }

    coppice::Group& group_;
    std::size_t ranks_, self_;
    protocol::AgreementPlan plan_;
    cg::Mailboxes wire_;
    std::vector<std::uint64_t> taken_;  // so many messages of each
    std::vector<std::uint32_t> neighbours_;
    std::unique_ptr<bench::Machine> machine_;
    std::vector<std::byte> body_;
};

class Run {
  public:
    explicit Run(const Options& options)
        : options_(options),
          context_(coppice::Context::create()),
          group_(coppice::Group::create(context_)),
          slabs_(group_.size()),
          self_(static_cast<std::uint8_t>(group_.rank())) {
        if (slabs_ > cg::kMostSlabs || slabs_ > options.grid)
            throw std::runtime_error("too many ranks, or too few planes");
    }

    void solve() {
        bool is_whole = true;
        while (true) {
            try {
                if (!is_whole) renew();
                if (!solver_) make_solver();
                const Clock::time_point renewed = Clock::now();
                if (options_.agree != "library" && !bare_) bare_.emplace(group_, options_.agree);
                const Seconds wiring = Clock::now() - renewed;  // what an engine would keep
                if (!is_whole) {
                    solver_->restore(group_);
                    recovery_ += Clock::now() - broken_ - wiring;
                }
                is_whole = true;
                solver_->solve(group_, options_.sources, 1e-12);
                break;
            } catch (const cg::RankDied&) {
            } catch (const coppice::Error& caught) {
                if (caught.status() != coppice::Status::kRevoked && caught.status() != coppice::Status::kPeerFailed)
                    throw;
            }
            if (is_whole) broken_ = Clock::now();
            is_whole = false;
        }
        const Seconds total = Clock::now() - start_;
        // Nobody's memory goes before all have read it.
        (void)group_.agree(1U, coppice::Operation::kAnd);
        bare_.reset();
        if (group_.rank() == 0) tell(total);
    }

  private:
    void renew() {
        bare_.reset();
        turn_ = 0;
        group_.revoke();
        coppice::Group survivors = group_.shrink();
        group_.leave();
        group_ = std::move(survivors);
    }
    void make_solver() {
        mail_.emplace(group_, cg::Solver::boxes(slabs_) + 2, cg::Solver::numbers(options_.grid, slabs_));
        solver_.emplace(*mail_, options_.grid, slabs_, self_, 20,
                        [this](coppice::Group&, std::span<double> parts) { gather(parts); });
        start_ = Clock::now();
    }

    // Each rank has a row, and there are two of them in turn: a rank that begins the next but one knows that all have read this.
    void gather(std::span<double> parts) {
        if (gathered_++ == options_.dies_at && self_ == options_.victim) kill(getpid(), SIGKILL);
        double* const rows = mail_->outgoing(cg::Solver::boxes(slabs_) + turn_++ % 2);
        std::ranges::copy(parts, rows + self_ * slabs_);
        const Clock::time_point start = Clock::now();
        if (bare_) {
            bare_->agree();
        } else if (!group_.agree(1U, coppice::Operation::kOr).second.acknowledged) {
            throw cg::RankDied();
        }
        agreeing_ += Clock::now() - start;
        ++agreed_;
        for (std::size_t slab = 0; slab < slabs_; ++slab)
            parts[slab] = rows[solver_->owners()[slab] * slabs_ + slab];
    }

    void tell(Seconds total) {
        for (const cg::Solver::Result& result : solver_->results())
            std::printf("residual %.17g after %u iterations\n", result.residual,
                        static_cast<unsigned>(result.iterations));
        std::printf("ranks %u of %zu total_ms %.3f agreements %llu agreeing_ms %.3f recovery_ms %.3f\n", group_.size(),
                    slabs_, 1e3 * total.count(), static_cast<unsigned long long>(agreed_), 1e3 * agreeing_.count(),
                    1e3 * recovery_.count());
    }

    const Options& options_;
    coppice::Context context_;
    coppice::Group group_;
    std::size_t slabs_;
    std::uint8_t self_;
    std::optional<cg::Mailboxes> mail_;
    std::optional<cg::Solver> solver_;
    std::optional<Bare> bare_;
    std::uint64_t gathered_ = 0, turn_ = 0, agreed_ = 0;
    Seconds agreeing_{0}, recovery_{0};
    Clock::time_point start_, broken_;
};

void read_kill(const std::string& text, Options& options) {
    unsigned victim = 0;
    unsigned long long at = 0;
    if (std::sscanf(text.c_str(), "%u@%llu", &victim, &at) != 2)
        throw CLI::ValidationError("--kill", "RANK@SUM is wanted");
    options.victim = victim;
    options.dies_at = at;
}

}  // namespace

int main(int argc, char** argv) {
    Options options;
    std::string kill;
    CLI::App app("Conjugate gradients, each iteration of which is agreed upon, and the time that takes.", "cg_agreed");
    app.add_option("--agree", options.agree, "what agrees")
        ->check(CLI::IsMember({"library", "era", "two-phase"}))
        ->capture_default_str();
    app.add_option("--grid", options.grid, "points along each side of the cube")
        ->check(CLI::Range(2, 512))
        ->capture_default_str();
    app.add_option("--sources", options.sources, "so many equations, one after the other")
        ->check(CLI::Range(1, 1000))
        ->capture_default_str();
    app.add_option("--kill", kill, "RANK@SUM: that rank kills itself before that sum");
    app.callback([&] {
        if (!kill.empty()) read_kill(kill, options);
    });
    CLI11_PARSE(app, argc, argv);
    try {
        Run(options).solve();
        return 0;
    } catch (const std::exception& trouble) {
        std::fprintf(stderr, "cg_agreed: %s\n", trouble.what());
        return 1;
    }
}
