//! Plays the conversations of `testdata/conversations/client-*.txt` with a client and compares what it says, line by
//! line.

mod conversation;
#[path = "../../../testdata/conversations/play.rs"]
mod play;
#[path = "../../../testdata/conversations/words.rs"]
mod words;

#[test]
fn conversations_go_as_written() {
    play::play_all("client-", conversation::Conversation::new);
}
