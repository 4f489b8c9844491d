#!/usr/bin/env python3
"""Plants bugs in copies of the engine's and the machines' sources, one at a time, and lets the world find them.

Usage: planted_bugs.py BUILD_DIR SOURCE_DIR [NAME ...]

What is planted (tests/support/planted.py) goes into a program that runs world after world until a promise is broken
(find_violation.cpp). Fails when a bug is not found by its number of seeds, and when its place is not in the source exactly once.
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "support"))
from planted import Catcher, Fault, Planter  # noqa: E402


# `told`: what the conversation of the run has to have in it.
def bug(name, source, before, after, seeds, worlds=(), told=""):
    words = (*worlds, "told") if told else worlds
    finds = r"seed \d+: [^\n]*" + (rf"(?s:.*){told}" if told else "")
    finder = Catcher("tests/simulation/world/find_violation", (str(seeds), *words), finds=finds)
    return Fault(name, source, before, after), finder


BUGS = [
    # --- the engine
    bug("a control message is not sent again",
        "src/engine/core/controls.cpp",
        "        if (link.send(bytes_of(control.header), {}, &in_flight) == transport::SendStatus::again)\n"
        "            kept_[kept++] = control;\n",
        "        (void)link.send(bytes_of(control.header), {}, &in_flight);\n", 3000),
    bug("agreements hear of no death",
        "src/engine/collectives/agreement/agreement.cpp",
        "    if (!life_.revoked()) agreements_.peer_failed(death.rank);\n", "", 3000,
        told=r"\d+ ns  rank \d+ to rank \d+: agreement/[a-z-]+, sequence \d+.* \d+ bytes\n"),
    bug("the detector hears of no death",
        "src/engine/core/failures.cpp",
        "    detector_.peer_failed(rank);\n", "", 3000),
    bug("a decided agreement keeps its place",
        "src/engine/collectives/agreement/agreements.cpp",
        "    end_decided();  // one that was decided when", "    // one that was decided when", 6000),
    bug("a payload lacks a byte",
        "src/engine/collectives/broadcast/machines.cpp",
        "        stage(slot, payload.data(), payload.size());\n",
        "        stage(slot, payload.data(), payload.size() - (payload.size() > 8));\n", 3000),
    bug("a view is consumed at once",
        "src/engine/collectives/broadcast/delivery.cpp",
        "if (!request.view || status != COPPICE_OK) mark_consumed(slot);", "mark_consumed(slot);", 3000),
    bug("a slot is used again too early",
        "src/engine/collectives/window/window.cpp",
        "        const std::uint64_t count = board_->consumed(local_peer).value;",
        "        const std::uint64_t count = board_->consumed(local_peer).value + 1;", 3000),
    bug("a request is not given back",
        "src/engine/group.cpp",
        "    pool_.give_back(request);\n", "", 3000),
    bug("a callback for a death that others have told is missing",
        "src/engine/core/failures.cpp",
        "if (is_told && life_.stays()) untold_", "if (is_told && life_.stays() && death.was_leader) untold_", 3000),
    bug("logs of the host's ranks are not read",
        "src/engine/core/failures.cpp",
        "[this](Rank dead) { learn_failure(dead); }", "[](Rank) {}", 3000),
    bug("a rank that leaves is taken for dead at once",
        "src/engine/core/life.cpp",
        "    leaving_.want();\n    progress();\n",
        "    leaving_.want();\n    membership_.give_up();\n    progress();\n", 3000),
    bug("a part of a chunk goes to the chunk's begin",
        "src/engine/collectives/payload/payload_messages.cpp",
        "entry.own() + entry.descriptor->at(message.first) + message.end;", "entry.own() + entry.descriptor->at(message.first);", 3000),
    bug("what a large payload lies in is given back too early",
        "src/engine/collectives/payload/payloads.cpp",
        "        if (entry->sequence.value >= stable || entry->in_flight > 0 || !end_reads(*entry)) return false;\n",
        "        if (entry->sequence.value > stable || entry->in_flight > 0 || !end_reads(*entry)) return false;\n", 6000),
    bug("a payload is withdrawn while others read it",
        "src/engine/collectives/payload/payload_reads.cpp",
        "    return entry.readers.empty() && entry.readings.empty();\n", "    return entry.readings.empty();\n", 6000),
    bug("a rank does not say that it reads no more",
        "src/engine/collectives/payload/payload_reads.cpp",
        "        if (reading.is_open) say_done(reading.from, entry.sequence);\n", "", 3000),
    bug("an answer that comes too late is not answered",
        "src/engine/collectives/payload/payload_reads.cpp",
        "life_.revoked()) return say_done(from, sequence);", "life_.revoked()) return;", 6000),
    bug("a rank says that it is done while its reads are under way",
        "src/engine/collectives/payload/payload_reads.cpp",
        "        if (reading.reads.under_way > 0) {\n",
        "        if (reading.reads.under_way > 0) {\n            if (reading.is_open) say_done(reading.from, entry.sequence);\n", 20000),
    # --- the machines
    bug("a notice is forwarded to nobody",
        "src/protocol/detector/detector.cpp",
        "    if (!is_leader_) return std::nullopt;\n", "    return std::nullopt;\n", 3000),
    bug("the rank that a dead one observed is observed by none",
        "src/protocol/detector/detector.cpp",
        "    if (next == observed_) return;\n", "    if (next == observed_ || observed_ != kNobody) return;\n", 6000),
    bug("a node's new leader is told nothing",
        "src/protocol/detector/detector.cpp",
        "        if (now != target.leader) target.told = 0;\n", "", 20000, ("closed",)),
    bug("a revocation stays here",
        "src/protocol/revocation/revocation.cpp",
        "    if (learn(roster_.self())) spread();\n", "    learn(roster_.self());\n", 3000),
    bug("a root that died is waited for",
        "src/protocol/broadcast.cpp",
        "    idle_ = false;\n    learn_of_failures();\n    forget(position);\n", "    idle_ = false;\n    forget(position);\n", 3000),
    bug("newcomers are not told that they are in",
        "src/engine/newcomers/introductions.cpp",
        "    if (admission_) admission_->tell_formed(taken_in, left_out, birth.bytes());\n",
        "    if (admission_ && taken_in.empty()) admission_->tell_formed(taken_in, left_out, birth.bytes());\n", 6000),
    bug("each rank says for itself whether a renewal is pending",
        "src/engine/collectives/agreement/agreement.cpp",
        "    change_waits_ = request.change_waits;\n",
        "    change_waits_ = request.change_waits && core_.members().self().value % 2 == 0;\n", 6000),
    bug("a newcomer is ready before all can reach it",
        "src/bootstrap/lobby.cpp",
        "                all = all && place.wired.contains(other.serial) && other.wired.contains(place.serial);\n",
        "                all = all && place.wired.contains(other.serial);\n", 6000),
    bug("both halves of a group go on",
        "src/protocol/membership/quorum.cpp",
        "    return halves || !failures.suspected.contains(lowest);\n", "    return halves || lowest <= members;\n", 6000),
    bug("the dead count, whoever has seen them",
        "src/protocol/membership/quorum.cpp",
        "    if (quorum == Quorum::certain) not_counted.unite(failures.certain);\n", "", 6000),
    bug("a renewal does without a quorum",
        "src/protocol/membership/decree.cpp",
        "    if (is_overtaken || !has_quorum) return say_no_quorum();\n",
        "    if (is_overtaken && !has_quorum) return say_no_quorum();\n", 6000),
    bug("a majority is not asked for while operations are under way",
        "src/engine/collectives/shrink/shrink.cpp",
        "    if (around_.settings().quorum == protocol::Quorum::any) return;\n    const bool had",
        "    if (around_.settings().quorum != protocol::Quorum::certain) return;\n    const bool had", 6000),
    bug("an own contribution is not counted",
        "src/protocol/agreement/agreement.cpp",
        "    merge(slot, body, &operation);\n    slot.status = Status::gathering;", "    slot.status = Status::gathering;", 3000),
    bug("an agreement is decided twice",
        "src/protocol/agreement/repair.cpp",
        "    slot.asking = true;\n", "", 3000),
    bug("a late contributor is not told the decision",
        "src/protocol/agreement/agreement.cpp",
        "            owe(slot, from);\n            break;", "            break;", 3000),
    bug("acknowledgements are united",
        "src/protocol/agreement/agreement.cpp",
        "trouble(slot).acknowledged.intersect(*body.acknowledged);", "trouble(slot).acknowledged.unite(*body.acknowledged);", 3000),
    bug("a report that a death has lost is not repeated",
        "src/protocol/stability/stability.cpp",
        "    report_again_ = !is_top() && (report_again_ || !lacks(kReportIsNotRepeated));\n", "", 3000),
]


def main():
    planter = Planter(*sys.argv[1:3])
    lost = []
    for fault, finder in BUGS:
        if sys.argv[3:] and fault.name not in sys.argv[3:]:
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = planter.planted_says(fault, finder, pathlib.Path(folder))
        print(f"{fault.name}: {found.splitlines()[0] if found else 'NOT FOUND'}", flush=True)
        if not found:
            lost.append(fault.name)
    if lost:
        print(f"{len(lost)} planted bugs were not found: {', '.join(lost)}")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
