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
    ("a later call asks for other things", SHRINK + "succession.cpp", "terms_of(first_bounds_)", "terms_of(bounds_)",
     gtest("tests/engine/engine_unit", "Succession.ARankAsksForTheSame*")),
    ("why no group was made is lost where the call had timed out", SHRINK + "shrink.cpp",
     "if (shrinking_ == nullptr) untold_ = ", "if (false) untold_ = ",
     linked(RENEW, "Renew/RenewEveryLayout.ARankWhoseCallHadTimedOut*/one_host")),
]
