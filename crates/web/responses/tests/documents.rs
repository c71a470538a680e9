//! Every name that a decision gives is in the documents.

use responses::{DependencyRefusal, ForwardReason, NotStored, PassReason, RevalidateReason, StaleAllowed};

#[test]
fn every_reason_is_explained() {
    let document = include_str!("../../../../docs/cache-status.md");
    let names = NotStored::ALL
        .map(NotStored::name)
        .into_iter()
        .chain(RevalidateReason::ALL.map(RevalidateReason::name))
        .chain(StaleAllowed::ALL.map(StaleAllowed::name))
        .chain(DependencyRefusal::ALL.map(DependencyRefusal::name))
        .chain(ForwardReason::ALL.map(ForwardReason::name))
        .chain(PassReason::ALL.map(PassReason::name));
    for name in names {
        assert!(document.contains(&format!("\n| `{name}` |")), "docs/cache-status.md does not explain `{name}`");
    }
}
