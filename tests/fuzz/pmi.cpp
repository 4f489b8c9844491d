// What a launcher says in PMI's lines to a process that it has started.
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.hpp"
#include "bootstrap/launcher_protocol.hpp"
#include "bootstrap/pmi_connection.hpp"
#include "fuzz.hpp"

using namespace coppice;
using namespace coppice::bootstrap;

namespace {

std::string in_hex(std::span<const std::byte> bytes) {
    std::string text;
    for (const std::byte byte : bytes) {
        char digits[3];
        std::snprintf(digits, sizeof digits, "%02x", std::to_integer<unsigned>(byte));
        text += digits;
    }
    return text;
}

std::string in_small_letters(std::string_view text) {
    std::string small(text);
    for (char& c : small)
        if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
    return small;
}

// As a rank fetches what another one has put: value after value, until all is there.
void fetch(PmiConnection& connection, std::uint64_t deadline_ns) {
    std::vector<std::byte> bytes;
    std::uint32_t total = 0;
    for (int part = 0; part == 0 || bytes.size() < total; ++part) {
        const auto line = connection.ask("cmd=get", "get_result", deadline_ns);
        if (!line) return;
        FUZZ_CHECK(line->find('\n') == std::string::npos);
        const std::string_view text = pmi_word(*line, "value");
        FUZZ_CHECK(text.find(' ') == std::string_view::npos && text.size() <= line->size());
        const std::size_t before = bytes.size();
        if (pmi_word(*line, "rc") != "0" || !take_pmi_value(text, bytes, total)) return;
        FUZZ_CHECK(total <= kMaxBlob + 1024 && bytes.size() <= total);
        FUZZ_CHECK(bytes.size() > before || bytes.size() == total);
        FUZZ_CHECK(in_hex(std::span(bytes).subspan(before)) == in_small_letters(text.substr(kPmiTotalDigits)));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    fuzz::Input input(data, size);
    const auto said = input.take(64UL * 1024);  // as much as the socket holds
    int ends[2];
    FUZZ_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
    FUZZ_CHECK(::send(ends[1], said.data(), said.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(said.size()));
    ::shutdown(ends[1], SHUT_WR);
    {
        const std::uint64_t deadline = now_ns() + 60'000'000'000;
        PmiConnection connection(ends[0], 1);
        if (connection.shake_hands(deadline)) {
            FUZZ_CHECK(connection.largest_value() > kPmiTotalDigits + 2 && connection.largest_value() <= 800);
            const auto fence = connection.demand("cmd=barrier_in", "barrier_out", deadline);
            for (int rank = 0; fence && rank < 3; ++rank)
                fetch(connection, deadline);
        }
        connection.say_goodbye();
    }
    ::close(ends[0]);
    ::close(ends[1]);
    return 0;
}
