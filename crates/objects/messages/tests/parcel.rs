//! A parcel is the message that was wrapped.

use machine::{Goodbye, Pace, Parcel};
use messages::{Ping, ToClient, ToServer};
use types::GoodbyeReason;

#[test]
fn a_parcel_is_what_was_wrapped_and_nothing_else() {
    let ping = || ToServer::Ping(Ping { nonce: 7 });
    let parcel = Parcel::new(ping());
    assert_eq!((parcel.get(), parcel.get::<ToClient>()), (Some(&ping()), None));
    assert_eq!(format!("{parcel:?}"), format!("{:?}", ping()));
    assert_eq!(parcel, Parcel::new(ping()));
    assert_ne!(parcel, Parcel::new(ToServer::Ping(Ping { nonce: 8 })));
    assert_ne!(parcel, Parcel::new(ToClient::Ping(Ping { nonce: 7 })));
    let parcel = parcel.open::<ToClient>().expect_err("it is for a server");
    assert_eq!(parcel.open(), Ok(ping()));
}

#[test]
fn a_parcel_tells_its_pace_and_a_goodbye() {
    let goodbye = Goodbye { reason: GoodbyeReason::Done, text: "enough".into() };
    let parcel = Parcel::new(ToClient::from(goodbye.clone()));
    assert_eq!((parcel.goodbye(), parcel.pace()), (Some(&goodbye), Pace::Trailing));
}
