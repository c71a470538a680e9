//! The messages of published files as bytes: each to the byte, there and back, cut, damaged, and larger than they may
//! be.

mod golden;
mod hostile;
mod limits;
mod samples;

use samples::samples;

#[test]
fn messages_arrive_as_they_were_said() {
    for sample in samples() {
        let frame = sample.encode().unwrap();
        assert_eq!(sample.hear(&frame), Ok(Some(sample)));
    }
}
