#include "reproduce/store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace coppice::sim {
namespace {

constexpr const char* kMade = "coppice-sim";

std::string first_line() {
    return nlohmann::json{{kMade, COPPICE_PROJECT_VERSION}}.dump() + '\n';
}

std::string line_of(const Cell& part, const Figures& figures) {
    nlohmann::json json = figures;
    json["cell"] = part.key();
    json["first_seed"] = part.first_seed;
    return json.dump() + '\n';
}

}  // namespace

tl::expected<std::unique_ptr<Store>, std::string> Store::open(const std::filesystem::path& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) return tl::unexpected(fmt::format("cannot make {}: {}", directory.string(), error.message()));
    const std::filesystem::path path = directory / "runs.jsonl";
    const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0) return tl::unexpected(fmt::format("cannot write {}: {}", path.string(), std::strerror(errno)));
    std::unique_ptr<Store> store(new Store(path, file));
    if (flock(file, LOCK_EX | LOCK_NB) != 0) {
        return tl::unexpected(fmt::format("another coppice-sim is at work in {}", directory.string()));
    }
    if (const auto reason = store->load()) return tl::unexpected(*reason);
    return store;
}

Store::~Store() {
    close(file_);
}

std::optional<std::string> Store::load() {
    std::ifstream stream(path_, std::ios::binary);
    std::stringstream all;
    all << stream.rdbuf();
    const std::string content = all.str();
    const std::size_t last = content.rfind('\n');
    const std::size_t whole = last == std::string::npos ? 0 : last + 1;
    if (whole < content.size() && ftruncate(file_, static_cast<off_t>(whole)) != 0) {
        return fmt::format("cannot cut the torn end off {}: {}", path_.string(), std::strerror(errno));
    }
    if (whole == 0) return append(first_line());
    std::size_t number = 0;
    for (std::size_t begin = 0; begin < whole;) {
        const std::size_t end = content.find('\n', begin);
        if (auto reason = read_line(content.substr(begin, end - begin), ++number)) return reason;
        begin = end + 1;
    }
    return std::nullopt;
}

std::optional<std::string> Store::read_line(const std::string& line, std::size_t number) {
    try {
        const auto json = nlohmann::json::parse(line);
        if (number == 1) {
            const auto version = json.at(kMade).get<std::string>();
            if (version == COPPICE_PROJECT_VERSION) return std::nullopt;
            return fmt::format("{} was made by coppice-sim {}, this is {}: its runs may differ, use another directory",
                               path_.string(), version, COPPICE_PROJECT_VERSION);
        }
        const Start start{json.at("cell").get<std::string>(), json.at("first_seed").get<std::uint64_t>()};
        parts_[start][json.at("runs").get<std::uint64_t>()] = json.get<Figures>();
        return std::nullopt;
    } catch (const nlohmann::json::exception&) {
        return fmt::format("line {} of {} is damaged: remove it, and only what it held is run again", number,
                           path_.string());
    }
}

std::optional<std::string> Store::append(const std::string& line) {
    for (std::size_t done = 0; done < line.size();) {
        const ssize_t written = write(file_, line.data() + done, line.size() - done);
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno));
        done += static_cast<std::size_t>(written);
    }
    if (fdatasync(file_) != 0) return fmt::format("cannot write {}: {}", path_.string(), std::strerror(errno));
    return std::nullopt;
}

const Figures* Store::find(const Cell& part) const {
    const auto started = parts_.find(start(part));
    if (started == parts_.end()) return nullptr;
    const auto found = started->second.find(part.runs);
    return found == started->second.end() ? nullptr : &found->second;
}

std::uint64_t Store::longest(const Cell& cell) const {
    const auto started = parts_.find(start(cell));
    if (started == parts_.end()) return 0;
    const auto beyond = started->second.upper_bound(cell.runs);
    return beyond == started->second.begin() ? 0 : std::prev(beyond)->first;
}

std::string Store::text_of(const std::vector<std::pair<Cell, const Figures*>>& parts) {
    std::string text = first_line();
    for (const auto& [part, figures] : parts)
        text += line_of(part, *figures);
    return text;
}

std::optional<std::string> Store::add(const Cell& part, Figures figures) {
    if (auto reason = append(line_of(part, figures))) return reason;
    parts_[start(part)][part.runs] = std::move(figures);
    return std::nullopt;
}

}  // namespace coppice::sim
