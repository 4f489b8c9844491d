/* How a group ends and the next one comes of it: revoking, shrinking, renewing. Programs include <coppice/coppice.h>, of which this is a part. */
#ifndef COPPICE_MEMBERSHIP_H
#define COPPICE_MEMBERSHIP_H

#include <coppice/group.h>
#include <coppice/request.h>
#include <coppice/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------------------------- revoking, shrinking --- */

/* Ends the group's work: every broadcast and agreement of it that is pending, and every later one, ends with COPPICE_ERR_REVOKED,
 * at every member, sooner or later. For a rank that has seen that the group cannot go on while others wait for it in other
 * calls. The caller
 *  - may be any member, at any time, also several at once, also again (which does nothing); COPPICE_OK each time;
 *  - then shrinks the group, or destroys it. An agreement that is revoked here may have ended well at another rank: a rank that
 *    has to know agrees in the shrunk group;
 *  - leaves a root's registered memory as after a timeout (coppice_memory_register).
 *
 * Local: it returns immediately. It reaches every live member while the ranks that know of it stay in the group, whichever ranks
 * die, the caller included once one other rank has heard of it; on one host it has reached all when the call returns. A rank
 * learns of it in any call of the library; its progress thread passes it on.
 *
 * A revoked group can be asked (query, failed, agreed), shrunk, and destroyed, which waits for nobody's calls; only for
 * answers that the news has arrived where this rank had to bring it, for half a second at most. Views that have been delivered
 * stay good until they are freed, unless this rank is taken for dead (coppice_request_view).
 * Source: ULFM's MPI_Comm_revoke; unlike there, an agreement on a revoked group is refused, too. */
COPPICE_API coppice_status_t coppice_group_revoke(coppice_group_t* group);

/* Makes a group of the survivors, in *shrunk: all ranks but those that all agree to have failed, numbered 0 … in their old
 * order, with the old group's settings. It is good for everything that a group is good for, shrinking again included. The caller
 *  - calls it at all live ranks of `group`, which may have been revoked, and usually has been; the n-th shrink of one rank is
 *    the n-th of all. Broadcasts and agreements may be under way, and are not touched;
 *  - destroys both groups, in any order. The old one's memory is used again for groups that are shrunk after its end;
 *  - registers memory with the new group where it needs that: what was registered with the old one is not;
 *  - after COPPICE_ERR_TIMEOUT calls it again, which goes on with the same shrink, or destroys `group`: the others count on this
 *    rank by now, and it is then one that has failed in the new group.
 *
 * coppice_group_agreed(group) has the ranks that were agreed upon; they have failed, or have left. No rank that contributes is
 * left out, and no rank that was known to be dead is in. A rank that dies while others are done already is in the new group,
 * as a member that has failed. Where nobody has failed the new group has all ranks: a duplicate.
 *
 * The new group has the old one's transports and connections; no launcher and no exchange is asked. Its failure callback is
 * the old one's, with the same argument, called with the new group and its ranks.
 *
 * COPPICE_OK; *shrunk is NULL otherwise.
 * COPPICE_ERR_TIMEOUT after `timeout_ns`, naming ranks waited for.
 * COPPICE_ERR_BUSY while a request shrinks this group.
 * COPPICE_ERR_NO_RESOURCES, at all ranks alike, when 8 groups that come from one share memory on a host, or there is no more
 * memory for that: destroy groups that are not used any more at all ranks.
 * COPPICE_ERR_CONFIG, alike, where the group's algorithm can't be with so few ranks.
 * COPPICE_ERR_NO_QUORUM, naming the ranks that can't be reached, where too few are left for what COPPICE_QUORUM asks for. The shrink stays under
 * way, and another call says whether more has become known. Broadcasts, agreements and barriers of `group` end with it at once, too: the group
 * can be shrunk or destroyed, and nothing else. With `any` it never comes, and both sides of a cut go on. Under `certain`, the default,
 * deaths that cost the quorum are held back until a witness has seen them, for 2 s at most: coppice-run, or the program's own
 * (coppice_group_options_t.witness). No other launcher is a witness of hosts that are lost: of two ranks on two hosts, one killed, the
 * one with the higher number has no quorum there.
 * COPPICE_ERR_FENCED when the others take this rank for dead.
 *
 * Source: ULFM's MPI_Comm_shrink; SC'15 (ERA). */
COPPICE_API coppice_status_t coppice_group_shrink(coppice_group_t* group, coppice_group_t** shrunk,
                                                  uint64_t timeout_ns);

/* The same without waiting. *shrunk belongs to the library until coppice_request_test or coppice_request_wait has said how the
 * request ended. A request that is freed before goes on as after a timeout. */
COPPICE_API coppice_status_t coppice_group_shrink_nb(coppice_group_t* group, coppice_group_t** shrunk,
                                                     coppice_request_t** request);

/* ----------------------------------------------------------------------------------------- membership --- */

/* A group never changes: it is one view of its members. A renewal makes the next one, without the ranks that have failed or
 * want to leave, and with the processes that wait to join. Under coppice-run with --respawn, --spares or --join processes are started late:
 * their first coppice_group_create joins the group that the ranks have made first, or that was made of it by renewals. Any other process joins
 * with a ticket: coppice_group_invite, coppice_group_join.
 * One group admits at a time: the first one, then whichever a renewal or shrink has made of the one that admits. That is also a duplicate of a
 * group that goes on: the old one has nobody waiting from then on (coppice_group_pending), and its later renewals take in nobody. So a program
 * whose library shrinks its group for itself renews the group that the library has, or has the library begin with a group of its own. */

typedef enum coppice_numbering {
    COPPICE_NUMBERS_OF_THE_GONE = 0, /* newcomers take the numbers of those that are gone, in their order */
    COPPICE_NUMBERS_LAST = 1         /* newcomers come last */
} coppice_numbering_t;

typedef struct coppice_renew_options {
    size_t struct_size; /* sizeof(coppice_renew_options_t) */
    uint32_t least;     /* waits until so many members are there (default 0: for nobody) */
    uint32_t most;      /* newcomers are taken in up to so many members (default: as many as wait) */
    coppice_numbering_t numbering;
} coppice_renew_options_t;
#define COPPICE_RENEW_OPTIONS_INIT \
    { sizeof(coppice_renew_options_t), 0, 0, COPPICE_NUMBERS_OF_THE_GONE }

/* Makes the next group, in *next: coppice_group_shrink, which is a renewal that admits nobody, with more to choose. The caller
 *  - does what coppice_group_shrink asks for; calls of the two count as one operation;
 *  - gives the same options at all ranks, or NULL. A rank that gives NULL goes by the options of the others, and so does one that leaves. A
 *    newcomer that does not know them yet gives NULL. Where no rank that stays gives options, the defaults count.
 *    Ranks may shrink meanwhile: where the lowest rank that lives does, nobody is waited for or taken in.
 * Newcomers are taken in that all members can reach when the lowest of them decides: the next group has them as members, also where
 * one dies meanwhile. A process that was started again gets the rank of the one before it, where that was a member of this group.
 * A newcomer brings the path of switches above its host; where it knows none, broadcasts go by the order of ranks as long as it is a member.
 * A rank that has called coppice_group_leave gets COPPICE_OK and no group: *next is NULL. coppice_group_agreed(group) then has the
 * ranks that are not in the next group, those that have left among them.
 * COPPICE_ERR_TIMEOUT also when fewer than `least` members are there by then. Ranks compare the options of their first call. A later call
 * changes `least` and `most`, if the lowest rank that lives makes it and does not give NULL.
 * COPPICE_ERR_MISMATCH, at all ranks but those that leave: they have given different options, one that has died meanwhile included. No group
 * was made, and newcomers still wait: the next call begins anew. A rank whose call had timed out before is told so by its next call.
 * COPPICE_ERR_INVALID_ARGUMENT: `least` is above `most`, or above COPPICE_CAPACITY.
 * Otherwise as coppice_group_shrink.
 * Source: Varma et al., ICS'06; docs/membership.md. */
COPPICE_API coppice_status_t coppice_group_renew(coppice_group_t* group, const coppice_renew_options_t* options,
                                                 coppice_group_t** next, uint64_t timeout_ns);
/* The same without waiting, as coppice_group_shrink_nb. */
COPPICE_API coppice_status_t coppice_group_renew_nb(coppice_group_t* group, const coppice_renew_options_t* options,
                                                    coppice_group_t** next, coppice_request_t** request);

/* This rank will not be in the next group. Local: it tells the others with its next agreement (coppice_group_pending) and with the
 * renewal. Until then it is a member as before. The caller
 *  - takes part in the next renewal or shrink, which returns COPPICE_OK and no group;
 *  - then destroys this group, as everybody does. The others do not count it as failed (but some may, in this group, where it has
 *    been revoked or nothing was ever agreed on).
 * COPPICE_ERR_BUSY when this rank has called the next renewal already. Again: does nothing. */
COPPICE_API coppice_status_t coppice_group_leave(coppice_group_t* group);

/* Into *pending: 1 when, in the last agreement or barrier whose end this rank was told, some rank contributed that knew of a rank
 * that wants to leave, or of a process that waits to join and can (unless the last renewal asked for no more members than there are); else 0. The same at all ranks that were told of that end. So programs that ask after an agreement renew
 * together, or not at all. It costs no message. Makes no progress; failure callbacks that are due run in it. */
COPPICE_API coppice_status_t coppice_group_pending(const coppice_group_t* group, int* pending);

#define COPPICE_TICKET_BYTES 2048

/* Makes a ticket: whoever has it may join this group, or what is made of it by renewals. Local, at any member, at any time. The caller
 *  - has started all ranks with COPPICE_JOIN=any (processes of any host may join) or host (of the one where all ranks are; else
 *    no group is made), and COPPICE_CAPACITY, how many members there may be at once (default: as many as at first, for the dead);
 *  - gives `uses`, 1 or more: so many processes may join by it, each that was told how to reach the members counting as one, whatever
 *    becomes of it; and `lifetime_ns`, above 0: for so long, on the hosts' clocks of the day (UINT64_MAX: without an end);
 *  - gives *bytes, how much room there is at `ticket`: COPPICE_TICKET_BYTES suffice. *bytes is then how many it has;
 *  - hands it on as it would a password (a file that others can't read, a pipe): it is all that somebody needs to read and write all
 *    messages of the group. It can't be taken back but by its end.
 * It names up to 8 members at which a process may ask, this one first. It is good as long as one of these is a member.
 * COPPICE_ERR_CONFIG: nobody may join (COPPICE_JOIN=none), or the launcher starts those that join.
 * COPPICE_ERR_TRUNCATED: *bytes are too few; *bytes says how many it takes.
 * COPPICE_ERR_BUSY: another group was made of this one by a renewal or shrink: invite to that one.
 * COPPICE_ERR_BOOTSTRAP: this rank takes nobody in any more, and why.
 * Source of the listener's rules: docs/security.md. */
COPPICE_API coppice_status_t coppice_group_invite(coppice_group_t* group, uint32_t uses, uint64_t lifetime_ns,
                                                  void* ticket, size_t* bytes);

/* Joins a group with a ticket, in place of coppice_group_create. Any process may, whoever has started it. The caller
 *  - has the settings of the group's ranks (options and environment: COPPICE_JOIN, COPPICE_CAPACITY, COPPICE_TRANSPORT …); of `options`
 *    exchange, rank, size and timeout_ns are ignored; NULL: the defaults;
 *  - may give several tickets of one group, one behind the other, 16 at most: they are tried in turn;
 *  - destroys the group, before the context.
 * Returns when a renewal has taken this process in (coppice_group_renew at the members; coppice_group_pending tells them that somebody waits).
 * Then *group is a group as theirs, with an epoch above 0; coppice_group_view has the eldest rank. Until then it speaks with
 * one member alone; should that one die it begins again at another one.
 * COPPICE_OK; *group is NULL otherwise.
 * COPPICE_ERR_TIMEOUT after `timeout_ns`.
 * COPPICE_ERR_INVALID_ARGUMENT: this is no ticket, or was damaged.
 * COPPICE_ERR_MISMATCH: another version, or other settings: the message says which.
 * COPPICE_ERR_BOOTSTRAP, with the reason: the ticket has expired, is spent, or was changed; nobody that it names is there; a member
 * can't reach this process; the members have agreed to take it in, and the group that has it can't be made (coppice_group_renew there).
 * COPPICE_ERR_NO_RESOURCES: the group has, or waits for, as many members as it has room for (COPPICE_CAPACITY).
 * COPPICE_ERR_CONFIG: COPPICE_JOIN=none. */
COPPICE_API coppice_status_t coppice_group_join(coppice_context_t* context, const void* ticket, size_t bytes,
                                                const coppice_group_options_t* options, coppice_group_t** group,
                                                uint64_t timeout_ns);

#define COPPICE_NOBODY UINT32_MAX

typedef struct coppice_member {
    uint32_t seat;        /* its rank in the first group, else the number that it got when it came; stays as it is */
    uint32_t incarnation; /* how often the seat was taken before */
    uint32_t before;      /* its rank in the group of which this one was made; COPPICE_NOBODY: it was not in it */
    uint32_t since;       /* the epoch of its first group */
} coppice_member_t;

typedef struct coppice_view {
    size_t struct_size; /* in: sizeof(coppice_view_t) */
    uint32_t epoch;     /* as coppice_group_info_t.epoch */
    uint32_t size;
    uint32_t newcomers; /* members that were not in the group before; all, in one that was not made of another */
    uint32_t eldest;    /* the lowest rank of those that have been in for longest: has the state that newcomers need */
} coppice_view_t;

/* Which ranks are in the group, and where they come from: *view, and the first `capacity` members into `members` (may be NULL when
 * capacity is 0), by rank. The same at all ranks. Local. Callbacks as in coppice_group_pending. */
COPPICE_API coppice_status_t coppice_group_view(const coppice_group_t* group, coppice_view_t* view,
                                                coppice_member_t* members, size_t capacity);

#ifdef __cplusplus
}
#endif

#endif /* COPPICE_MEMBERSHIP_H */
