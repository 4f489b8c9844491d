"""Faults in what lets a message that looks like the one before it pass without a look at each field."""

from catchers import gtest

WIRE = "src/engine/wire/wire.hpp"

FAULTS = [
    ("a familiar header may be of another group", WIRE, "((names ^ word(&header_, 0)) & ~detail::kKind) | ", "",
     gtest("tests/engine/engine_unit", "Wire.AFamiliar*")),
    ("a familiar header may name another root", WIRE, "((about ^ word(&header_, 3)) & ~detail::kDetail) |", "",
     gtest("tests/engine/engine_unit", "Wire.AFamiliar*")),
    ("a familiar header may say anything of what is stable", WIRE, "(word(bytes.data(), 2) ^ word(&header_, 2)) | ", "",
     gtest("tests/engine/engine_unit", "Wire.AFamiliar*")),
    ("a familiar header may stand in front of a payload of any length", WIRE,
     "bytes.size() != kShortHeader || payload_length != payload_length_", "bytes.size() != kShortHeader",
     gtest("tests/engine/engine_unit", "Wire.AFamiliar*")),
    ("a familiar header may have any kind", WIRE, "(kinds_ >> kind & 1) == 0", "false",
     gtest("tests/engine/engine_unit", "Wire.A*")),
    ("a familiar header outlives a death", "src/engine/core/failures.cpp",
     "    if (!members_.fail(rank)) return is_dead_after_all(rank);\n    news_.familiar().forget();\n", "    if (!members_.fail(rank)) return is_dead_after_all(rank);\n",
     gtest("tests/engine/engine_unit", "FamiliarCore.*")),
    ("a familiar header outlives this rank's leaving", "src/engine/core/leaving.cpp",
     "    if (life_.stage() == before) return;\n    news_.familiar().forget();\n", "    if (life_.stage() == before) return;\n",
     gtest("tests/engine/engine_unit", "FamiliarCore.*")),
    ("a familiar header outlives a revocation", "src/engine/core/lifecycle.hpp",
     "        standing_ = Standing::revoked;\n        news_.familiar().forget();\n", "        standing_ = Standing::revoked;\n",
     gtest("tests/engine/engine_unit", "FamiliarCore.*")),
    ("a familiar header outlives its sender's seat", "src/engine/core/core.hpp",
     "        around_.router().give_up(there);\n        news_.familiar().forget();\n", "        around_.router().give_up(there);\n",
     gtest("tests/engine/engine_unit", "FamiliarCore.*")),
    ("what rests on deaths may be familiar", WIRE, "        kinds_ &= ~row.with_failures;", "        //",
     gtest("tests/engine/engine_unit", "GroupOfFour.AQuery*")),
]
