"""Faults in broadcasts by switches, in tables of sends, in the sets of failed members, in pulled payloads and in the last votes of the dead."""

from catchers import gtest, linked

PLACED = "src/protocol/placed_broadcast.cpp"
SCHEDULE = "src/protocol/schedule.cpp"
FAILED = "src/protocol/failed_set.hpp"
PULL = "src/protocol/pull/"
QUORUM = "src/protocol/membership/quorum.cpp"
DECREE = "src/protocol/membership/decree.cpp"
STABILITY = "src/protocol/stability/stability.cpp"
DEPARTURE = "src/protocol/departure/departure.cpp"
REVOCATION = "src/protocol/revocation/revocation.cpp"
VOTES = "src/engine/collectives/shrink/last_votes.cpp"
PAYLOADS = "src/engine/collectives/payload/payloads.cpp"
MESSAGES = "src/engine/collectives/payload/payload_messages.cpp"
HEIRS = "src/engine/collectives/shrink/heirs.cpp"
CARDS = "src/engine/newcomers/cards.cpp"
UNIT = "tests/engine/engine_unit"
NEWCOMERS = linked("tests/integration/integration_placed_newcomers", "*")


def placed(names="*"):
    return gtest("tests/protocol/protocol_placed", names)


def of_machine(room, test, names="*"):
    return gtest(f"tests/protocol/{room}/{room}_{test}", names)


FAULTS = [
    # --- newcomers
    ("a newcomer's path counts on a host that has members", HEIRS,
     "        if (known != node_of_host.end()) {\n",
     "        if (known != node_of_host.end()) {\n            if (!made.switches.empty()) made.switches[known->second] = home.switches;\n",
     gtest(UNIT, "Heirs.*")),
    ("the path of a host that is new is lost", HEIRS, "made.switches.push_back(home.switches);", "made.switches.emplace_back();", NEWCOMERS),
    ("newcomers bring paths though nobody has kept the members'", HEIRS,
     "        if (!made.switches.empty()) made.switches.push_back", "        made.switches.push_back", gtest(UNIT, "Heirs.*")),
    ("a newcomer goes by the order of ranks where the others go by switches", "src/engine/joining/joining.cpp",
     "topology::sites_of(switches);", "std::vector<topology::Site>();", NEWCOMERS),
    ("a newcomer keeps no paths for those that come later", "src/engine/joining/joining.cpp",
     "std::move(sites), {}, std::move(switches));", "std::move(sites), {});", NEWCOMERS),
    ("a group that newcomers have joined keeps no paths", "src/engine/collectives/shrink/shrink.cpp",
     "topology::domains_of(domains), std::move(switches));", "topology::domains_of(domains));", NEWCOMERS),
    ("a newcomer's path is not looked at", "src/engine/newcomers/introductions.cpp",
     "!checked) {\n        if (admission_)", "!checked && false) {\n        if (admission_)",
     linked("tests/integration/integration_tickets_refused", "Refused.OneWithSwitches*")),
    ("a birth has a member of no node", CARDS, "if (!bytes.empty() || (paths > 0", "if (!bytes.empty() || (paths > 1 && false", gtest(UNIT, "Cards.*")),
    # --- broadcasts by switches
    ("by switches nothing is said again after a death", PLACED,
     "    core_.peer_failed(position);\n    say_again();\n", "    core_.peer_failed(position);\n", placed()),
    ("by switches nothing is said again to a leader that stands in", PLACED,
     "    core_.peer_restarted(position);\n    say_again();\n", "    core_.peer_restarted(position);\n", placed()),
    ("by switches nobody stands in for a dead leader", PLACED,
     "    return entry(plan_->placement.leaf_of(host_), 0) == host_;\n",
     "    return plan_->placement.behind_leader(root_, host_) == 0;\n", placed()),
    ("by switches a dead root still serves its children", PLACED,
     "parent == host_ || (parent == root_ && !failed(root_));", "parent == host_ || parent == root_;", placed()),
    ("by switches nobody relies on the root", PLACED,
     "parent == host_ || (parent == root_ && !failed(root_));", "parent == host_;", placed()),
    ("by switches the known dead count among those that are corrected", PLACED,
     "        if (failed(host)) return Answer{false, std::nullopt};", "        if (failed(host)) return Answer{true, std::nullopt};",
     placed()),
    # --- tables of sends
    ("a table of sends forgets what was heard", SCHEDULE,
     "            if (left <= Broadcast::kRemembered) step.heard_left = std::uint64_t{1} << (left - 1);\n", "",
     gtest("tests/protocol/protocol_schedule", "*")),
    ("a table of sends is as long as it likes", SCHEDULE,
     "    if (machine.children_ + 2 * distance > kMost) return false;\n", "    (void)distance;\n",
     gtest("tests/protocol/protocol_schedule", "*")),
    ("there are tables of sends for synchronized corrections", SCHEDULE,
     "    return is_plain && !plan.correction.synchronized && plan", "    return is_plain && plan",
     gtest("tests/protocol/protocol_schedule", "*")),
    # --- sets of failed members
    ("two runs of failed members that meet stay apart", FAILED,
     "        if (!made.empty() && next.first <= made.back().last + 1) {", "        if (!made.empty() && next.first <= made.back().last) {",
     gtest("tests/topology/topology_failed_set_test", "*")),
    ("what is taken from a set leaves its first run alone", FAILED,
     "            if (c->first > from) made.push_back({static_cast<std::uint32_t>(from), c->first - 1});\n", "",
     gtest("tests/topology/topology_failed_set_test", "*")),
    ("the lowest that has not failed is the lowest of all", FAILED,
     "intervals_.empty() || intervals_.front().first > 0 ? 0 : intervals_.front().last + 1;", "0;",
     gtest("tests/topology/topology_failed_set_test", "*")),
    # --- payloads that are pulled
    ("a dead rank is asked for all chunks", PULL + "pull_verdict.cpp",
     "            if (!failed(message.first)) note_holder(message.first);\n", "            note_holder(message.first);\n",
     of_machine("pull", "rules")),
    ("any rank may ask whether a root's payload is whole", PULL + "pull_verdict.cpp",
     "            if (!root_dead_ || from > self_) return false;\n", "            if (!root_dead_) return false;\n",
     of_machine("pull", "rules")),
    ("the needy that have died are told", PULL + "pull_verdict.cpp",
     "    std::erase_if(needy_, [this](std::uint32_t rank) { return failed(rank); });\n", "", of_machine("pull", "rules")),
    ("a source that has died is not replaced", PULL + "pull.cpp",
     "    if (source_ == rank.value && !lacks(kSourcesAreNotReplaced)) turn_to(0);\n", "", of_machine("pull", "explore")),
    ("chunks go to the dead", PULL + "pull.cpp",
     "    std::erase_if(streams_, [rank](const Stream& stream) { return stream.to == rank.value; });\n", "",
     of_machine("pull", "rules")),
    ("what a dead root has shown is not looked at", PAYLOADS,
     "    if (!shown_.exists() || life_.revoked()) return;\n    for", "    if (!shown_.exists() || !life_.revoked()) return;\n    for",
     linked("tests/integration/integration_payloads", "Payloads.ARootThatDies*")),
    ("a rank that had no descriptor shows nothing for good", "src/transport/shm/bulk.cpp",
     "    if (size_ == 0 && !make(own, most, bytes)) drop();\n",
     "    static bool tried = false;\n    if (!std::exchange(tried, true) && !make(own, most, bytes)) drop();\n",
     linked("tests/integration/integration_payload_limits", "PayloadLimitsOfOneHost.*")),
    ("what a large payload took stays memory of its rank", "src/transport/shm/bulk.cpp",
     "    if (end >= prepared_) return;\n", "    if (end > 0) return;\n",
     linked("tests/integration/integration_payloads", "Payloads.ALargerOneThan*")),
    ("a payload that goes alone is not shown", "src/engine/collectives/payload/shown.hpp",
     "*may_map_plenty_ ? kMaxBroadcast : most_bytes_", "most_bytes_",
     linked("tests/integration/integration_payloads", "Payloads.ALargerOneThan*")),
    ("a window has no count of bytes", PAYLOADS,
     "    return held == 0 || held + bytes <= most_bytes_;\n", "    return true;\n",
     linked("tests/integration/integration_payloads", "Payloads.TheWindowCountsBytes*")),
    ("pulled payloads hear of no death", PAYLOADS,
     "        entry->machine.peer_failed(death.rank);\n", "",
     linked("tests/integration/integration_payloads", "*ARootMayDieAtEveryMessage*")),
    ("a chunk's check counts for nothing", MESSAGES,
     "transport::crc32c(payload) != header.detail", "false",
     linked("tests/integration/integration_payload_faults", "*AChunkThatIsDamaged*two_hosts")),
    ("a rank is as impatient in each round", PULL + "pull.cpp",
     "(plan_->patience.value << rounds)", "(plan_->patience.value + 0 * rounds)", of_machine("pull", "rules")),
    ("what a rank shows that it has is believed", "src/engine/collectives/payload/row.hpp",
     " || word != sealed(sequence, chunks))", ")",
     linked("tests/integration/integration_payload_forged", "*WhatARankSays*as_2000")),
    ("what the dead have shown is believed", "src/engine/collectives/payload/row.hpp",
     " || word != sealed(sequence, chunks))", ")",
     linked("tests/integration/integration_payload_forged", "*NorIsIt*as_2000")),
    ("a rank that shows what cannot be is waited for", PAYLOADS,
     "        return entry.machine.spoiled(*by);\n", "        return;\n",
     linked("tests/integration/integration_payload_forged", "*WhatARankSays*as_2001")),
    ("a large payload that has lost its place is delivered", "src/transport/tcp/connection.cpp",
     "        if (!is_lost) return Parsed::frame;\n", "        (void)is_lost;\n        return Parsed::frame;\n",
     gtest("tests/transport/transport_tcp_tests", "LargePayloads.*")),
    ("a large payload may move while it comes", "src/transport/tcp/connection.cpp",
     "    if (large_ == Large::placed && at != large_at_) large_ = Large::lost;\n", "    if (at == nullptr && large_ == Large::placed) large_ = Large::lost;\n",
     gtest("tests/transport/transport_tcp_tests", "LargePayloads.*")),
    # --- which ranks go on
    ("the last vote of one that lives is read", VOTES,
     "if (!has_left && (board_->alive(rank) || board_->departed(rank)))", "if (!has_left && board_->departed(rank))",
     gtest("tests/engine/engine_unit", "LastVotes*")),
    ("one that has left in peace is dead for certain", VOTES,
     "if (!has_left && (board_->alive(rank) || board_->departed(rank)))", "if (!has_left && board_->alive(rank))",
     gtest("tests/engine/engine_unit", "LastVotes*")),
    ("one that has said nothing has no last vote", VOTES,
     "    if (stamp == 0) return protocol::LastVote();\n", "    if (stamp == 0) return std::nullopt;\n",
     gtest("tests/engine/engine_unit", "LastVotes*")),
    ("those that are dead for certain count as votes against", QUORUM,
     "members - not_counted.count();", "members - voiceless.count();", of_machine("membership", "quorum")),
    ("the lowest of all decides between halves, though it is dead for certain", QUORUM,
     "not_counted.lowest_absent();", "voiceless.lowest_absent();", of_machine("membership", "quorum")),
    ("a root that is overtaken decides", DECREE,
     "    if (is_overtaken || !has_quorum) return say_no_quorum();\n", "    if (!has_quorum) return say_no_quorum();\n    (void)is_overtaken;\n",
     of_machine("membership", "explore")),
    ("a renewal is decided before its children have answered", DECREE,
     "    if (phase_ == Phase::idle || !is_acknowledged()) return;\n", "    if (phase_ == Phase::idle) return;\n",
     of_machine("membership", "explore")),
    ("a proposal of an earlier root is followed", DECREE,
     "        if (root + 1 < followed_) return;\n", "", of_machine("membership", "explore")),
    # --- stability, leaving, revocation
    ("more may be consumed than anybody has started", STABILITY,
     "    if (message.count > stable_ + window_) return false;\n", "", of_machine("stability", "rules")),
    ("what is stable goes by the fastest", STABILITY,
     "        if (known.count < least.count) least = known;\n",
     "        if (known.count > least.count) least = known;\n", of_machine("stability", "rules")),
    ("what is stable is kept to itself", STABILITY,
     "    stable_ = count;\n    told_ = kNobody;\n    tell_children();\n", "    stable_ = count;\n    told_ = kNobody;\n",
     of_machine("stability", "rules")),
    ("a rank that is taken for dead says farewell", DEPARTURE,
     "    if (fenced_) return end_without_peace();\n", "", of_machine("departure", "rules")),
    ("a farewell of one that is taken for dead settles something", DEPARTURE,
     "return !failed_.contains(rank.value); });", "return rank.value != UINT32_MAX; });", of_machine("departure", "rules")),
    ("questions go to the dead", DEPARTURE,
     "        if (!failed_.contains(message.to.value)) return message;\n", "        return message;\n", of_machine("departure", "rules")),
    ("a rank that stays is asked as often as ever", DEPARTURE,
     "        pause_.value = std::max(pause_.value, std::min(2 * pause_.value, plan_.longest_pause.value));\n", "        (void)plan_;\n",
     linked("tests/integration/integration_idle", "*/EveryLayout.ARankWhoseOtherWaits*/tcp")),
    ("a rank that hears something else still asks rarely", DEPARTURE, "    } else {\n        ask_soon(now);\n    }\n    holder_ = holder;\n",
     "    }\n    holder_ = holder;\n", gtest("tests/protocol/departure/departure_rules", "*")),
    ("a rank that is held up asks for halves of the window alone", STABILITY, "    wanted_ = count;\n",
     "    wanted_ = count / step_ * step_;\n", linked("tests/integration/integration_broadcast_waiting", "Window.AViewThatIsHeldAnywhere*")),
    ("an answer comes before the news", REVOCATION,
     "        (message.kind == RevocationKind::answer && !revoked())) {", "        false) {", of_machine("revocation", "rules")),
    ("a rank that leads since another has left tells nobody", REVOCATION,
     "    if (revoked() && !led && roster_.leads()) spread();\n", "    (void)led;\n", of_machine("revocation", "rules")),
    ("the outside knows before all is sent", REVOCATION,
     "    if (!revoked() || outside_knows_ || !all_sent || !sends_.empty() || !unaware_.empty()) return;\n",
     "    if (!revoked() || outside_knows_ || !all_sent || !sends_.empty()) return;\n", of_machine("revocation", "rules")),
]
