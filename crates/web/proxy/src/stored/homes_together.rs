//! The homes of a proxy are used only together with those that have the same hub: each hub waits for its own homes
//! alone.
//!
//! The first home that is there is taken, and each further one is probed beside one that is. One with another hub is
//! refused: nothing is stored at it until a later probe shows that it has the same one. A life of a home has one hub,
//! so a home is admitted for its life.

use crate::operate::notes::{Note, Notes};
use crate::stored::shared_home::{NOBODY, SharedHome};
use coherence::OneHub;
use std::time::Duration;
use tokio::time::sleep;

/// How often the homes are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Compares the hubs of the homes for as long as the proxy runs.
pub(crate) async fn compare_always(homes: &[SharedHome], notes: &Notes) {
    loop {
        compare(homes, notes).await;
        sleep(LOOK_EVERY).await;
    }
}

/// Admits the homes that are there and have one hub.
async fn compare(homes: &[SharedHome], notes: &Notes) {
    let mut lives = Vec::with_capacity(homes.len());
    for home in homes {
        lives.push(home.cache.fetch_ticket().await.map(|ticket| ticket.life));
    }
    for (home, life) in homes.iter().zip(&lives) {
        let Some(life) = *life else { continue };
        if home.admission.is_life(life) || home.admission.was_refused_lately(life) {
            continue;
        }
        let mut here = homes.iter().zip(&lives).filter(|(_, life)| life.is_some());
        match here.find(|(other, life)| life.is_some_and(|life| other.admission.is_life(life))) {
            None => begin_with(homes, home, life),
            Some((known, _)) => match known.home.has_hub_of(&home.home).await {
                OneHub::Same => home.admission.set(life),
                OneHub::Different => refuse(known, home, life, notes),
                OneHub::Unknown => {}
            },
        }
    }
}

/// No home is there that was used before: this one is the first. Responses stored at the others are invalidated, as
/// these may have another hub.
fn begin_with(homes: &[SharedHome], first: &SharedHome, life: u64) {
    for home in homes.iter().filter(|home| !std::ptr::eq(*home, first)) {
        home.admission.set(NOBODY);
        home.cache.lapse_all();
    }
    first.admission.set(life);
}

fn refuse(known: &SharedHome, home: &SharedHome, life: u64, notes: &Notes) {
    let (home_at, known_at) = (&home.address, &known.address);
    let why = format!(
        "the home {home_at} has another hub than the home {known_at}: nothing is stored at {home_at}; start both homes \
         with the same --hub"
    );
    if home.admission.refuse(life, why.clone()) {
        notes.say(Note::HomeRefused(why));
    }
}
