//! The limits that roles keep to, drawn: mostly as shipped, sometimes so small that what takes 4,096 of something in
//! the shipped program takes two.

use crate::rng::Rng;
use types::Limits;

/// Draws the limits of a scenario with this many processes. A limit below what an honest peer may need is not drawn:
/// then roles would part, which the checkers take for a fault.
pub(super) fn limits(rng: &mut Rng, processes: usize) -> Limits {
    let shipped = Limits::SHIPPED;
    if rng.chance(500) {
        return shipped;
    }
    // Drawn aside: what follows is what it would be without.
    let commits_in_turn = rng.clone().pick(&[shipped.commits_in_turn, 0, 1, 4]);
    let losers = rng.clone().pick(&[shipped.losers, shipped.losers, 0, 1]);
    let rarely_small = rng.pick(&[100, 400, 900]);
    let ahead_bytes = rng.clone().pick(&[shipped.ahead_bytes, 1, 1, 500]);
    let mut draw = |shipped: usize, tiny: &[usize]| if rng.chance(rarely_small) { rng.pick(tiny) } else { shipped };
    // With fewer, and a redirector that keeps next to nothing, a group of ten sends its members away all the time.
    let commits_per_session = draw(shipped.commits_per_session, &[8, 16, 32]);
    let members = draw(shipped.members, &[processes + 1, processes + 4]);
    let vouched_per_session = draw(shipped.vouched_per_session, &[4 * processes, 16 * processes]);
    Limits {
        pages_per_message: draw(shipped.pages_per_message, &[1, 2, 2, 5]),
        invalidations_per_message: draw(shipped.invalidations_per_message, &[1, 2, 5]),
        invalidation_bytes_per_message: draw(shipped.invalidation_bytes_per_message, &[0, 100, 2000]),
        answer_bytes: draw(shipped.answer_bytes, &[0, 500]),
        ahead_bytes,
        write_back_bytes: draw(shipped.write_back_bytes, &[0, 500, 5000]),
        reads_per_commit: draw(shipped.reads_per_commit.into(), &[1, 2]) as u8,
        sessions: draw(shipped.sessions, &[processes + 1, processes + 4]),
        members,
        fetches_per_session: draw(shipped.fetches_per_session, &[1, 2, 8]),
        commits_per_session,
        commits_per_group: draw(shipped.commits_per_group, &[64]),
        commits_in_turn,
        losers,
        outcomes_per_client: draw(shipped.outcomes_per_client, &[2 * commits_per_session]),
        outcome_pages_per_client: draw(shipped.outcome_pages_per_client, &[16, 64]),
        granted_pages: draw(shipped.granted_pages, &[2, 8, 64]),
        absent_pages: draw(shipped.absent_pages, &[16, 64]),
        vouched_per_session,
        gone_clients: draw(shipped.gone_clients, &[1, 4, 64]),
        gone_members: draw(shipped.gone_members, &[1, 4]),
        groups: draw(shipped.groups, &[processes]),
        peers: draw(shipped.peers, &[1, 2]),
        leased_changes: draw(shipped.leased_changes, &[1, 2, 16]),
        kept_invalidations: shipped.kept_invalidations,
        grant_pages: draw(shipped.grant_pages as usize, &[1, 2, 8]) as u32,
    }
}
