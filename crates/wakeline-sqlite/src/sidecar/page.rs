//! The format of a process's hint file.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

use rustix::fs::{FlockOperation, flock};

use super::HintEntry;

/// Size limit of a page. Each change names a queue, partition, namespace, task and group.
const PAGE_BYTES_MAX: usize = 1024 * 1024;

/// Encodes a page: a line with length and checksum, then JSON. It overwrites the old page in one
/// write; the rest of a longer old page lies beyond the new length and is ignored.
pub(super) fn page(entries: &VecDeque<HintEntry>) -> Vec<u8> {
    let body = serde_json::to_vec(entries).expect("names and numbers become JSON");
    let mut page = format!("{} {:016x}\n", body.len(), checksum(&body)).into_bytes();
    page.extend(body);
    page
}

/// Decodes a page. Returns `None` if it is torn or has another format.
pub(super) fn read_page(file: &File) -> Option<Vec<HintEntry>> {
    let len = usize::try_from(file.metadata().ok()?.len()).ok()?.min(PAGE_BYTES_MAX);
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (len, sum) = std::str::from_utf8(&bytes[..end]).ok()?.split_once(' ')?;
    let body = bytes.get(end + 1..end + 1 + len.parse::<usize>().ok()?)?;
    let whole = u64::from_str_radix(sum, 16).ok()? == checksum(body);
    whole.then(|| serde_json::from_slice(body).ok())?
}

/// FNV-1a, to detect torn pages.
fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Creates this process's hint file. It is locked before it gets its final name, so that no peer
/// mistakes it for the file of a dead process.
pub(super) fn make(own: &Path, entries: &VecDeque<HintEntry>) -> io::Result<File> {
    let early = own.with_extension("new");
    let file = crate::connect::private_file().create_new(true).read(true).open(&early)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    file.write_all_at(&page(entries), 0)?;
    fs::rename(&early, own)?;
    Ok(file)
}

/// Whether a path refers to this file, not to another file or to none.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let place = |data: io::Result<fs::Metadata>| data.ok().map(|at| (at.dev(), at.ino()));
    place(file.metadata()).is_some_and(|ours| place(fs::metadata(path)) == Some(ours))
}
