"""Faults in large payloads: beyond 4 GiB, down a tree of many hosts, where memory can't be registered, and what a caller's mistakes leave."""

from catchers import gtest, linked

DESCRIPTOR = "src/engine/wire/descriptor.hpp"
READS = "src/engine/collectives/payload/payload_reads.cpp"
PAYLOADS = "src/engine/collectives/payload/payloads.cpp"
PIPELINE = "src/topology/pipeline.hpp"
LARGE = gtest("tests/engine/engine_unit", "Unregistered.*:FarChunks.*:FarRoot.*:GroupOfFour.APayloadBeyond*")

FAULTS = [
    # --- memory that can't be registered
    ("nobody counts payloads whose memory can't be registered", READS, "        ++counts_.unregistered;\n", "", LARGE),
    ("people are not told that payloads go in messages", READS, "        around_.context().warn_of_unregistered(made.error().message);\n", "", LARGE),
    ("people are told so again and again", "src/engine/context.cpp", "    if (std::exchange(has_warned_, true)) return;\n", "", LARGE),
    ("a payload whose memory can't be registered is tried again for each rank that asks", READS, "    entry.cannot_be_open = !made;\n", "", LARGE),
    ("a rank that can't read is served when something else happens", "src/engine/collectives/payload/payloads.cpp",
     " && offer_to_readers(*entry)) pump(*entry);", ") offer_to_readers(*entry);", LARGE),
    ("who may lock nothing is not told of the limit", "src/transport/verbs/memory.cpp", "error == ENOMEM || error == EPERM;", "error == ENOMEM;",
     gtest("tests/transport/transport_verbs_tests", "Registration.*")),
    # --- the window
    ("payloads behind a root's hold it up", "src/engine/collectives/payload/payloads.cpp", "entry->sequence >= before", "entry->sequence.value > before.value + 1024",
     linked("tests/integration/integration_payloads", "Payloads.TheWindowCountsThePayloadsBefore*")),
    # --- beyond 4 GiB
    ("chunks lie where 32 bits say", DESCRIPTOR, "return std::uint64_t{number} * chunk;", "return number * chunk;", LARGE),
    ("a payload of more than the most is described", DESCRIPTOR, " && read.bytes <= kMaxBroadcast", "", LARGE),
    ("a word counts chunks in 32 bits", "src/engine/collectives/payload/offer.hpp", "if (have > all || ", "if (static_cast<std::uint32_t>(have) > all || ", LARGE),
    ("a desk may end behind the last address", "src/engine/collectives/payload/offer.hpp", "bytes <= UINT64_MAX - address", "bytes <= UINT64_MAX", LARGE),
    ("what is read beyond 4 GiB lands at the beginning", READS, "into = {entry.own() + entry.descriptor->at(item.number),",
     "into = {entry.own() + static_cast<std::uint32_t>(entry.descriptor->at(item.number)),", LARGE),
    ("what is sent from beyond 4 GiB is what lies at the beginning", "src/engine/collectives/payload/payload_messages.cpp",
     "chunk = entry.own() + entry.descriptor->at(part.first);", "chunk = entry.own() + static_cast<std::uint32_t>(entry.descriptor->at(part.first));", LARGE),
    # --- more than sixteen hosts
    ("a tree's second branch gets its chunks from the first", PIPELINE, "(position.value - 1) / 2}", "position.value / 2}", gtest("tests/protocol/pull/pull_rules", "Pipeline.*")),
    ("a chain is as long as there are hosts", PIPELINE, "kLongestChain = 16;", "kLongestChain = 1000000;",
     linked("tests/integration/integration_payload_faults", "ManyHosts.TakeTheirChunksDownATree")),
    # --- memory that is filled and shown
    ("a root tells of chunks that it has yet to copy", PAYLOADS,
     "        copy_for_others(entry->own() + from, payload.data() + from, bytes);\n        entry->machine.hold(all, end);\n        tell(*entry);\n        note_filled(end - have);\n",
     "        entry->machine.hold(all, end);\n        tell(*entry);\n        note_filled(end - have);\n        copy_for_others(entry->own() + from, payload.data() + from, bytes);\n",
     linked("tests/integration/integration_payload_shown", "Fill.ARootMayDieAtEveryChunkThatItFills")),
    ("a root that fills its memory is not to be killed there", "src/transport/faults.cpp", "    if (at_fill_ > 0 && filled_ >= at_fill_) die();\n", "    (void)at_fill_;\n",
     gtest("tests/transport/transport_shm_tests", "Faults.KillsARoot*")),
    ("a root's filled chunks are not counted", PAYLOADS, "faults->chunks_filled(chunks);", "faults->chunks_filled(0 * chunks);",
     linked("tests/integration/integration_payload_shown", "Fill.ARootMayDieAtEveryChunkThatItFills")),
    ("a rank of a root's host copies what it could view", PAYLOADS, "    return shown_.exists() && leader && *leader != members_.self();\n", "    return leader && false;\n",
     linked("tests/integration/integration_payload_shown", "Views.OfLargePayloadsOnOneHost*")),
    ("memory that was allocated is copied", PAYLOADS, "    if (*lent != nullptr) {\n", "    if (*lent != nullptr && false) {\n",
     linked("tests/integration/integration_payload_shown", "Views.OfLargePayloadsOnOneHost*")),
    ("a view counts for nothing when it is given", "src/engine/collectives/broadcast/delivery.cpp", "    if (!request.view || status != COPPICE_OK) mark_consumed(slot);\n", "    mark_consumed(slot);\n",
     linked("tests/integration/integration_payload_shown", "Views.OfLargePayloadsCount*")),
    # --- who holds it up
    ("a root without room is not told who reads", READS, "    if (reader == nullptr) return window_.holder_name();\n", "    if (reader == nullptr || true) return window_.holder_name();\n",
     gtest("tests/engine/engine_unit", "StillRead.*")),
    ("a rank that leaves is not told who reads", READS, "    return reader == nullptr ? std::string()\n", "    return true ? std::string()\n", gtest("tests/engine/engine_unit", "StillRead.*")),
    ("a rank that leaves what is revoked is not told who reads what not all have", READS,
     "std::string Payloads::leaving_waits_for() const {\n    const Reader* const reader = last_reader(life_.revoked() ? window_.next() : Sequence(window_.stable()));\n",
     "std::string Payloads::leaving_waits_for() const {\n    const Reader* const reader = last_reader(Sequence(window_.stable()));\n", gtest("tests/engine/engine_unit", "StillRead.*")),
    # --- mistakes
    ("memory of large payloads is not given back", "src/engine/collectives/payload/memory.cpp", "        munmap(data_, size_);\n", "        (void)size_;\n",
     linked("tests/integration/integration_payload_limits", "*MistakesLeaveNothing*")),
]
