// The tables of docs/promises.md: each promise has a predicate or a reason why it has none, and no sentence of the headers' comments
// and of the README's promises that sounds like one is missing.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "simulation/promises/promises.hpp"

namespace coppice::promises {
namespace {

const std::filesystem::path kRoot(SOURCE_ROOT);

std::string text_of(const std::filesystem::path& path) {
    std::ifstream file(kRoot / path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

// Without what only lays it out: a promise may be broken into lines, and stand in a comment.
std::string words_of(const std::string& text) {
    static const std::regex kLayout("[\\s*/]+");
    static const std::regex kEnds("^ | $");
    return std::regex_replace(std::regex_replace(text, kLayout, " "), kEnds, "");
}

// "| "words" | where | what holds it |": with a predicate, and below that table's end without one.
struct Row {
    std::string line;
    std::string words;
    std::string where;
    std::string holds;
};
struct Tables {
    std::vector<Row> with;
    std::vector<Row> without;
};

Tables tables() {
    Tables read;
    std::istringstream lines(text_of("docs/promises.md"));
    const std::regex row("\\| \"([^\"]+)\" \\| ([^|]+) \\| ([^|]+) \\|.*");
    bool is_second = false;
    for (std::string line; std::getline(lines, line);) {
        is_second = is_second || line == "## Without a predicate";
        if (line.rfind("| \"", 0) != 0) continue;
        std::smatch match;
        if (!std::regex_match(line, match, row)) {
            ADD_FAILURE() << "no row: " << line;
            continue;
        }
        (is_second ? read.without : read.with).push_back({line, words_of(match[1]), match[2], match[3]});
    }
    return read;
}

bool stands_where_it_says(const Row& row) {
    return words_of(text_of(row.where)).find(row.words) != std::string::npos;
}

// ------------------------------------------------------------------------------------------------------ sentences ---

struct Sentence {
    std::string where;
    std::string words;
};

// Of three words or more, that says something of all, or of none.
bool sounds_like_a_promise(const std::string& sentence) {
    static const std::regex kSounds("\\b(every|never|always|nobody|no rank|all live)\\b", std::regex::icase);
    return std::ranges::count(sentence, ' ') >= 2 && std::regex_search(sentence, kSounds);
}

void add_sentences(const std::string& where, const std::string& block, std::vector<Sentence>& found) {
    const std::string words = words_of(block);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < words.size(); ++at) {
        const bool is_last = at + 1 == words.size();
        if (!is_last && (words[at + 1] != ' ' || std::string_view(".?!").find(words[at]) == std::string_view::npos))
            continue;
        const std::string sentence = words_of(words.substr(begin, at + 1 - begin));
        if (sounds_like_a_promise(sentence)) found.push_back({where, sentence});
        begin = at + 1;
    }
}

// A block is what stands between blank lines, or an item of a list.
void add_blocks(const std::string& where, const std::string& text, std::vector<Sentence>& found) {
    static const std::regex kItem("[\\s*]*- .*");
    static const std::regex kBlank("[\\s*]*");
    std::istringstream lines(text);
    std::string block;
    for (std::string line; std::getline(lines, line);) {
        if (std::regex_match(line, kItem) || std::regex_match(line, kBlank)) {
            add_sentences(where, block, found);
            block.clear();
        }
        block += line + "\n";
    }
    add_sentences(where, block, found);
}

void add_comments(const std::string& where, std::vector<Sentence>& found) {
    const std::string text = text_of(where);
    for (std::size_t at = 0; (at = text.find("/*", at)) != std::string::npos;) {
        const std::size_t end = text.find("*/", at);
        add_blocks(where, text.substr(at, end - at), found);
        at = end;
    }
}

// A cell of a table is a block of its own.
void add_section(const std::string& where, const std::string& heading, std::vector<Sentence>& found) {
    std::istringstream lines(text_of(where));
    std::string text;
    bool is_in_it = false;
    for (std::string line; std::getline(lines, line);) {
        if (line.rfind("## ", 0) == 0) is_in_it = line == heading;
        if (!is_in_it) continue;
        if (line.rfind("|", 0) == 0) line = std::regex_replace(line, std::regex("\\|"), "\n\n");
        text += line + "\n";
    }
    EXPECT_FALSE(text.empty()) << where << " has no section " << heading;
    add_blocks(where, text, found);
}

std::vector<Sentence> sentences() {
    std::vector<Sentence> found;
    for (const auto& file : std::filesystem::directory_iterator(kRoot / "include/coppice"))
        if (file.path().extension() == ".h") add_comments("include/coppice/" + file.path().filename().string(), found);
    add_section("README.md", "## Promises", found);
    return found;
}

bool is_about(const Row& row, const Sentence& sentence) {
    return row.where == sentence.where &&
           (sentence.words.find(row.words) != std::string::npos || row.words.find(sentence.words) != std::string::npos);
}

// ---------------------------------------------------------------------------------------------------------- tests ---

TEST(Promises, EachHasAPredicateAndStandsWhereTheTableSays) {
    std::set<std::string> known;
    for (const Promise& promise : promises())
        known.insert(fmt::format("`{}`", promise.name));
    std::set<std::string> named;
    const std::vector<Row> rows = tables().with;
    for (const Row& row : rows) {
        EXPECT_TRUE(known.contains(row.holds)) << "an unknown predicate, or none: " << row.line;
        EXPECT_TRUE(stands_where_it_says(row)) << row.where << " does not say: " << row.words;
        named.insert(row.holds);
    }
    EXPECT_EQ(named, known) << "predicates without a promise";
    EXPECT_GE(rows.size(), known.size());
}

TEST(Promises, EachWithoutAPredicateStandsWhereTheTableSaysAndItsTestIsThere) {
    const std::vector<Sentence> all = sentences();
    for (const Row& row : tables().without) {
        EXPECT_TRUE(stands_where_it_says(row)) << row.where << " does not say: " << row.words;
        EXPECT_TRUE(std::ranges::any_of(all, [&row](const Sentence& one) { return is_about(row, one); }))
            << "not needed: " << row.line;
        static const std::regex kTest("`(tests/[^`]*)`");
        for (auto test = std::sregex_iterator(row.holds.begin(), row.holds.end(), kTest);
             test != std::sregex_iterator(); ++test)
            EXPECT_TRUE(std::filesystem::is_regular_file(kRoot / (*test)[1].str())) << row.line;
    }
}

TEST(Promises, NoSentenceThatSoundsLikeOneIsMissingInTheTables) {
    const Tables known = tables();
    const std::vector<Sentence> all = sentences();
    EXPECT_GE(all.size(), 30U) << "the comments are not found any more";
    for (const Sentence& sentence : all) {
        const auto has = [&sentence](const std::vector<Row>& rows) {
            return std::ranges::any_of(rows, [&sentence](const Row& row) { return is_about(row, sentence); });
        };
        EXPECT_TRUE(has(known.with) || has(known.without))
            << "docs/promises.md has no row for this sentence of " << sentence.where << ": " << sentence.words;
    }
}

// The rule itself, on what it has to tell apart.
TEST(Promises, SentencesAreFoundInCommentsListsAndTables) {
    std::vector<Sentence> found;
    add_blocks("a.h",
               " A first one. Every call ends,\n * whichever rank dies. And more.\n *  - never returns twice;\n *  - "
               "is fast\n",
               found);
    add_blocks("a.h", "never\n\nnever, whichever rank dies\n", found);
    std::vector<std::string> words;
    for (const Sentence& one : found)
        words.push_back(one.words);
    EXPECT_EQ(words, (std::vector<std::string>{"Every call ends, whichever rank dies.", "- never returns twice;",
                                               "never, whichever rank dies"}));
}

}  // namespace
}  // namespace coppice::promises
