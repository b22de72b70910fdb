//! What a process writes into its file of hints.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::Entry;

/// The largest page: each change names a queue, partition, namespace, task and group.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// A line with length and checksum, then JSON. It is written over the old page in one go; what
/// is left of a longer one lies beyond its length.
pub(super) fn page(entries: &VecDeque<Entry>) -> Vec<u8> {
    let body = serde_json::to_vec(entries).expect("names and numbers become JSON");
    let mut page = format!("{} {:016x}\n", body.len(), checksum(&body)).into_bytes();
    page.extend(body);
    page
}

/// `None` if the page is torn or not one of ours.
pub(super) fn read_page(file: &File) -> Option<Vec<Entry>> {
    let len = usize::try_from(file.metadata().ok()?.len()).ok()?.min(PAGE_BYTES_MAX);
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (len, sum) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let body = bytes.get(end + 1..end + 1 + len.parse::<usize>().ok()?)?;
    let whole = u64::from_str_radix(sum, 16).ok()? == checksum(body);
    whole.then(|| serde_json::from_slice(body).ok())?
}

/// FNV-1a: tells a torn page from a whole one.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Makes the file of this process. The lock comes before the final name, so nobody can take it for
/// the file of a dead process.
pub(super) fn make(own: &Path, entries: &VecDeque<Entry>) -> io::Result<File> {
    let early = own.with_extension("new");
    let file = crate::connect::private_file().create_new(true).read(true).open(&early)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all_at(&page(entries), 0)?;
    fs::rename(&early, own)?;
    Ok(file)
}

/// Whether a path leads to this file, and not to another or none.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let place = |data: io::Result<fs::Metadata>| data.ok().map(|at| (at.dev(), at.ino()));
    place(file.metadata()).is_some_and(|ours| place(fs::metadata(path)) == Some(ours))
}
