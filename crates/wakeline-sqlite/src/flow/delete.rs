//! Removes what instances own.

use crate::error::Res;
use crate::session::Session;

/// Removes all messages and activities of a lane. Returns how many.
pub(super) fn clear(s: &Session<'_>, lane: i64) -> Res<u64> {
    let mut gone = 0;
    for sql in [
        include_str!("../../sql/queries/flow_message_clear.sql"),
        include_str!("../../sql/queries/flow_work_clear.sql"),
    ] {
        gone += s.conn.prepare_cached(sql)?.execute([lane])? as u64;
    }
    Ok(gone)
}
