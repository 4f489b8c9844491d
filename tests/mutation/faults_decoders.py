"""Faults in what reads bytes from outside, which the inputs of the fuzzers' corpora have to catch."""

import pathlib

from planted import Catcher

CORPUS = pathlib.Path(__file__).resolve().parent.parent / "fuzz" / "corpus"


def corpus(name):
    return Catcher(f"tests/fuzz/fuzz_{name}", (str(CORPUS / name),))


BOOK = "src/engine/addresses/address_book.cpp"
INBOX = "src/transport/shm/link.hpp"
LINK = "src/transport/shm/link.cpp"
BOARD = "src/transport/shm/shm_board.cpp"
CONNECTION = "src/transport/tcp/connection.cpp"
ROW = "src/engine/collectives/payload/row.hpp"
LINES = "src/engine/collectives/agreement/contributions.cpp"
WITNESS = "src/bootstrap/launcher_witness.cpp"
HALL = "src/bootstrap/door/hall.cpp"
STORE = "src/bootstrap/store.cpp"
TRACE = "tools/coppice-trace/records.cpp"
CLOCKS = "tools/coppice-trace/clocks.cpp"

FAULTS = [
    # --- addresses
    ("a letter may say more than letters do", "src/engine/addresses/letter.hpp",
     "        if (!std::ranges::equal(std::span<const std::byte>(written), header)) return std::nullopt;\n", "", corpus("letters")),
    ("a page's entry may be of no seat", BOOK, "head.seat >= seats || ", "", corpus("letters")),
    ("pages are as long as they get", BOOK, "pages.empty() || pages.back().size() + bytes > most_bytes", "pages.empty()", corpus("letters")),
    # --- the host's memory
    ("an inbox's payload may have any length", INBOX, " || view.payload_length > kMaxPayload) [[unlikely]]", ") [[unlikely]]", corpus("shm")),
    ("a slot that is looked at comes again", LINK, "index < shape_.slots && held_[index] == 0", "index < shape_.slots", corpus("shm")),
    ("there are more slots than there are", LINK, "index < shape_.slots && held_[index] == 0", "held_[index % shape_.slots] == 0", corpus("shm")),
    ("a line may have any length", BOARD, "    if (length > kMaxPayload) return false;\n", "", corpus("shm")),
    ("a log may have any length", BOARD, "std::min<std::uint64_t>(length, own_.layout().group_size)", "length", corpus("shm")),
    ("a bulk has no end", "src/transport/shm/bulk.cpp", "place < kPage || place > size_ || bytes > size_ - place", "place < kPage", corpus("shm")),
    ("a claim of another's number is believed", "src/transport/shm/shm_transport.cpp",
     "peer == nullptr || peer->address.nonce != nonce;", "peer == nullptr;", corpus("shm")),
    ("a row may show more chunks than there are", ROW, "chunks > descriptor->chunks() || ", "", corpus("host_regions")),
    ("a contribution's word is taken for a truth value", LINES, "line.change_waits != 0", "reinterpret_cast<const bool&>(line.change_waits)",
     corpus("host_regions")),
    # --- tcp
    ("a peer has consumed what was not sent", CONNECTION, "    if (head.consumed - acknowledged_ > sent_ - acknowledged_) return false;\n", "",
     corpus("tcp_connection")),
    ("a payload is delivered though half of it is elsewhere", CONNECTION,
     "    if (large_ == Large::placed && at != large_at_) large_ = Large::lost;\n", "", corpus("tcp_connection")),
    ("what is read with a payload counts twice", CONNECTION, "in_end_ = got - std::min(got, of_it);", "in_end_ = got;", corpus("tcp_connection")),
    # --- the witness's memory, and the hall
    ("last words may have any length", WITNESS, "        if (length > witness::kMostBytes) return std::nullopt;\n", "", corpus("witness")),
    ("the living have last words", WITNESS, "owner == 0 || entry.ended.get() != owner", "owner == 0", corpus("witness")),
    ("a ticket is good for one use more", HALL, "on_their_way >= terms.uses", "on_their_way > terms.uses", corpus("hall")),
    ("a card may begin behind its end", HALL, " || length > body.size() || ", " || ", corpus("hall")),
    # --- a launcher's store, presences, and up-links
    ("a piece may have other bytes than it says", STORE, "!is_whole || theirs.bytes != rest.size()", "!is_whole", corpus("store")),
    ("a process that is there counts as dead", STORE, "!= ProcessState::gone)\n", "== ProcessState::unknown)\n", corpus("store")),
    ("a process may have voted in the group that it had forgotten last", "src/bootstrap/presence.cpp", "from = epoch + 1;", "from = epoch;",
     corpus("presence")),
    ("an epoch of any length is one", "src/bootstrap/presence.cpp", "    if (words->size() != sizeof from) return std::nullopt;\n",
     "    if (words->size() < sizeof from) return 0;\n", corpus("presence")),
    ("an up-link's name is where a line begins with it", "tools/coppice-run/links.cpp", "name == Hosts::uplink_name(leaf)",
     "name.starts_with(Hosts::uplink_name(leaf))", corpus("links")),
    # --- traces
    ("a record may be of any time", TRACE, "!(ns >= 0 && ns <= latest_ns)", "!(ns >= 0)", corpus("trace")),
    ("a record of another process is taken for one of this", TRACE, " || whole(record.at(\"pid\"), kMostPid) != trace.pid)", ")", corpus("trace")),
    ("any facts of a record are taken", TRACE, "    check_text(facts, \"of\");\n", "", corpus("trace")),
    ("a trace may begin twice", TRACE, "    if (!trace.clock.empty()) throw std::runtime_error(\"a second beginning\");\n", "", corpus("trace")),
    ("effects come before their causes", CLOCKS, "bounds.before(happened.given->first, happened.given->second, effect, here);",
     "bounds.before(effect, here, happened.given->first, happened.given->second);", corpus("trace")),
]
