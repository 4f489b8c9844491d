"""Faults in how ranks that were told few addresses when a group was made copy the others."""

from catchers import gtest

BOOK = "src/engine/addresses/address_book.cpp"
COPYING = "src/engine/addresses/copying.cpp"
PAGES = gtest("tests/engine/engine_unit", "address_book.*")
QUESTIONS = gtest("tests/engine/engine_unit", "few_addresses.bring_the_others*")
WORLDS = gtest("tests/simulation/world/world_test", "World.RanksThatWereTold*Reach*")
STAYING = gtest("tests/simulation/world/world_test", "World.RanksThatWereTold*DoNotLeave*")

FAULTS = [
    ("a page has what was not asked for", BOOK, "        if ((wanted[bit / 8] & std::byte{1} << (bit % 8)) == std::byte{0}) continue;\n", "", PAGES),
    ("a page names a rank of whom nothing is known", BOOK, "if (line.is_lacking() || bytes > most_bytes) continue;",
     "if (bytes > most_bytes) continue;", PAGES),
    ("an address is copied that fits no page", BOOK, "if (line.is_lacking() || bytes > most_bytes) continue;",
     "if (line.is_lacking()) continue;", PAGES),
    ("an answer has more pages than it may have", BOOK, "            if (pages.size() == most_pages) break;\n", "", PAGES),
    ("a page may name a seat that there is not", BOOK, "head.seat >= seats || ", "", PAGES),
    ("an entry of a page may be longer than the page", BOOK, " || head.length > page.size()", "", PAGES),
    ("what comes later replaces an address that is known", BOOK, "if (!line.addresses.empty() || addresses.empty()) return;",
     "if (addresses.empty()) return;", PAGES),
    ("the addresses of those that have ended are asked for", BOOK, "    line.has_ended = true;\n", "", PAGES),
    ("ranks that are in no row of another host are not told to anybody there", COPYING,
     "        if (is_of_use(seat)) introduce(seat);\n    if (has_told_)", "        (void)seat;\n    if (has_told_)", WORLDS),
    ("whoever wants an address that no living rank has waits for ever", COPYING,
     "            give_up_the_unreachable(now);\n", "            (void)now;\n", WORLDS),
    ("the same rank is asked again and again", COPYING, "write(some[turn_++ % some.size()]", "write(some[turn_ % some.size()]", QUESTIONS),
    ("ranks ask again at once though an answer has brought nothing new", COPYING, "    if (letter.number > 0 || !has_news_) return;\n",
     "    if (letter.number > 0) return;\n", QUESTIONS),
    ("a rank leaves though others need what it knows", COPYING, "    if (!holder()) return true;\n", "    return true;\n", STAYING),
    ("a rank does not ask whether others need its addresses when it leaves", "src/engine/core/leaving.cpp",
     "    if (!life_.fenced() && holder_of_addresses()) all = around_.router().transport_set()->copying()->may_leave() && all;\n", "", STAYING),
    ("a rank leaves that has all addresses, whoever lacks some", COPYING,
     "        if (is_of_use(seat) && std::ranges::find(complete_, seat) == complete_.end()) return seat;\n", "        (void)seat;\n", STAYING),
]
