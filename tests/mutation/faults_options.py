"""Faults in renewals whose callers give different options, or in what a rank is told that leaves or calls again."""

from catchers import gtest, linked

MEMBERSHIP = "src/protocol/membership/"
SHRINK = "src/engine/collectives/shrink/"
RENEW = "tests/integration/integration_renew"

FAULTS = [
    ("what the dead have asked for makes a view of too few", MEMBERSHIP + "decree.cpp",
     "return is_consented() ? own_consent()->change : next_change();", "return next_change();",
     gtest("tests/protocol/membership/membership_mechanisms", "Membership.TermsOfOneThatDied*")),
    ("a root that has asked waits for nobody", MEMBERSHIP + "decree.cpp",
     "    if (!found.change && has_too_few(change)) return;\n", "",
     gtest("tests/protocol/membership/membership_mechanisms", "Membership.ARootThatHasAsked*")),
    ("what others ask for is not heard", MEMBERSHIP + "talk.cpp", "    offer_ &= message.offer;\n", "",
     gtest("tests/protocol/membership/membership_fuzz", "FuzzMembership.KeepsItsPromises")),
    ("one that leaves has options that are compared", SHRINK + "succession.cpp",
     "    if (!machine_.is_leaving()) offer.terms", "    offer.terms",
     linked(RENEW, "Renew/RenewEveryLayout.OneThatLeavesIsAtOdds*/one_host")),
    ("a later call asks for other things", SHRINK + "succession.cpp", "first_wish_.terms()", "wish_.terms()",
     gtest("tests/engine/engine_unit", "Succession.ARankAsksForTheSame*")),
    ("a rank that gives NULL asks for the defaults", SHRINK + "succession.cpp", "if (is_shrink || !bounds) return {};", "if (is_shrink) return {};\n    if (!bounds) return protocol::Terms(protocol::Bounds());",
     linked(RENEW, "Renew/RenewEveryLayout.RanksThatGiveNull*/one_host")),
    ("a root that gives NULL waits for nobody", MEMBERSHIP + "decree.cpp", "bounds_ ? *bounds_ : offer.terms.bounds()", "bounds_.value_or(Bounds())",
     gtest("tests/protocol/membership/membership_mechanisms", "Membership.ARootThatAsksForNothing*")),
    ("a rank that leaves has bounds of its own", SHRINK + "succession.cpp", "machine_.is_leaving() ? std::nullopt : wish_.bounds", "wish_.bounds",
     linked(RENEW, "Renew.OneThatLeavesGoesBy*")),
    ("a call with NULL asks for fewer", SHRINK + "succession.cpp", "    if (wish.bounds) {\n        wish_ = wish;\n        machine_.ask_for(*wish.bounds);\n    }", "    wish_ = wish;\n    machine_.ask_for(wish.bounds.value_or(protocol::Bounds()));",
     linked(RENEW, "Renew.RanksThatGiveNullWait*")),
    ("the next group does not know how many there may be", SHRINK + "succession.cpp", "    heritage.most = machine_.view().offer().terms.bounds().most;\n", "",
     linked("tests/integration/integration_waiting_newcomers", "WaitingNewcomers.AreTakenInUpTo*")),
    ("what differs is not at odds", MEMBERSHIP + "view.hpp", "other.word_ != kNothing && other.word_ != word_", "false",
     gtest("tests/protocol/membership/membership_mechanisms", "Membership.TermsAreAtOdds*")),
    ("the most that callers ask for is lost", MEMBERSHIP + "view.hpp", "std::min(bounds.most, kMostMembers)", "kMostMembers",
     gtest("tests/protocol/membership/membership_mechanisms", "Membership.TermsKeep*")),
    ("the C++ interface gives options where it should give none", "include/coppice/group.hpp", "options.as_others ? nullptr : &plain", "&plain",
     gtest("tests/packaging/header_test", "*Renewed*")),
    ("why no group was made is lost where the call had timed out", SHRINK + "shrink.cpp",
     "if (shrinking_ == nullptr) untold_ = ", "if (false) untold_ = ",
     linked(RENEW, "Renew/RenewEveryLayout.ARankWhoseCallHadTimedOut*/one_host")),
]
