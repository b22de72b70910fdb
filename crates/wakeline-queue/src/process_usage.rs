//! The processor time and memory that this process uses, read from `/proc` on Linux. On other
//! systems they are 0.

/// The number of clock ticks per second in `/proc/self/stat`.
const TICKS: i64 = 100;
/// The number of bytes in a memory page.
const PAGE: i64 = 4096;

/// Returns the microseconds of processor time that this process has used.
pub(crate) fn cpu_micros() -> i64 {
    std::fs::read_to_string("/proc/self/stat").ok().and_then(|text| cpu_of(&text)).unwrap_or(0)
}

/// Returns the bytes of memory that this process holds.
pub(crate) fn memory_bytes() -> i64 {
    let text = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = text.and_then(|text| text.split(' ').nth(1)?.parse::<i64>().ok());
    pages.map_or(0, |pages| pages * PAGE)
}

/// Parses `/proc/self/stat`. The process name, in parentheses, may contain spaces.
fn cpu_of(text: &str) -> Option<i64> {
    let mut fields = text.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (i64, i64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) * (1_000_000 / TICKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_that_of_user_and_system() {
        let text = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 30 12 13 14";
        assert_eq!(cpu_of(text), Some(420_000));
        assert_eq!(cpu_of("nonsense"), None);
    }
}
