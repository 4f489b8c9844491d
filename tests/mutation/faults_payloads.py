"""Faults in large payloads: beyond 4 GiB, down a tree of many hosts, where memory can't be registered, and what a caller's mistakes leave."""

from catchers import gtest, linked

DESCRIPTOR = "src/engine/collectives/payload/descriptor.hpp"
READS = "src/engine/collectives/payload/payload_reads.cpp"
PIPELINE = "src/topology/pipeline.hpp"
LARGE = gtest("tests/engine/engine_unit", "Unregistered.*:FarChunks.*:FarRoot.*:GroupOfFour.APayloadBeyond*")

FAULTS = [
    # --- memory that can't be registered
    ("nobody counts payloads whose memory can't be registered", READS, "        ++counts_.unregistered;\n", "", LARGE),
    ("people are not told that payloads go in messages", READS, "        core_.context().warn_of_unregistered(made.error().message);\n", "", LARGE),
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
    # --- mistakes
    ("memory of large payloads is not given back", "src/engine/collectives/payload/memory.cpp", "        munmap(data_, size_);\n", "        (void)size_;\n",
     linked("tests/integration/integration_payload_limits", "*MistakesLeaveNothing*")),
]
