use super::*;

#[test]
fn background_work_is_not_polled_for_unless_a_claim_for_it_failed() {
    let mut rig = Rig::new(WakeMode::Compete);
    rig.arrive((9, OWN), LONG);
    let consumer = rig.arrive((1, 0), LONG);
    rig.settle();
    rig.core.link(down());
    rig.at(100 * MS);
    assert_eq!(rig.asked(), [[((1, 0), 1)]]);
    rig.settle();
    rig.hint(hint(9));
    assert_eq!(rig.asked(), [[((9, OWN), 1)]], "its hints are heard");
    rig.fail();
    rig.cancel(consumer);
    rig.at(200 * MS);
    assert_eq!(rig.asked(), [[((9, OWN), 1)]]);
    rig.settle();
    let before = rig.claims_total();
    rig.core.link(Link::Up);
    rig.idle_until(29 * S);
    rig.arrive((9, OWN), LONG);
    rig.idle_until(58 * S);
    rig.arrive((9, OWN), LONG);
    rig.idle_until(61 * S);
    assert_eq!(rig.log, ["degraded", "recovered"], "it keeps no polling alive");
    assert_eq!(rig.claims_total() - before, 2, "one for each arrival");
}
