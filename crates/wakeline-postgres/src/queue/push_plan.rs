//! What a push sends to the database: its messages by partition, cut into segments.
//!
//! # Where it sits
//! [`super::push`] and [`super::transact`] make a [`PushCall`] of their items, and for each try
//! a [`PushPlan`] of the slots that are still open.
//!
//! # Invariants
//! * Items of one partition keep their order; a transaction id that repeats within a call is sent
//!   once, and its later items share the fate of the first as duplicates.
//! * A segment has at most [`SEGMENT_LEN_MAX`] messages and [`SEGMENT_BYTES_MAX`] bytes, unless a
//!   single message is larger.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{Change, MessageId, PartitionId};
use wakeline_store::{PushItem, PushOutcome, Sealing, SealingError, StoreError};

use super::directory::PartitionKey;
use crate::dedup::{DedupCache, Known};

const SEGMENT_LEN_MAX: usize = 100;
const SEGMENT_BYTES_MAX: usize = 64 * 1024;

/// What a message that waits for its time, or is held back, is told to have for an offset.
const NO_OFFSET: i64 = -1;

/// How a slot stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    /// To be tried (again).
    Open,
    /// Somebody else holds the partition.
    Busy,
    /// Stored.
    Done,
}

/// The messages of one partition within a call.
pub(super) struct Slot {
    pub(super) key: PartitionKey,
    /// The partition's number; 0 until it is known.
    pub(super) partition: i64,
    pub(super) state: SlotState,
    /// Items by index, the first of each transaction id.
    items: Vec<usize>,
    /// Items whose transaction id an earlier one has, with that one.
    repeats: Vec<(usize, usize)>,
    /// What the database said of items: the offset of the first message, or that there is none.
    said: HashMap<usize, Option<i64>>,
    /// Whether an id may be known at all: some producer chose one.
    explicit: bool,
    /// Whether the queue is encrypted, as far as is known.
    pub(super) sealed: bool,
}

/// One push on its way.
pub(super) struct PushCall {
    pub(super) items: Vec<PushItem>,
    pub(super) slots: Vec<Slot>,
    /// One per item, once it is known.
    pub(super) outcomes: Vec<Option<PushOutcome>>,
    /// What became available, per slot.
    pub(super) changes: Vec<Option<Change>>,
    /// The slot of each item.
    pub(super) slot_of: Vec<usize>,
    /// Payloads of items as they are stored, for encrypted queues.
    sealed: HashMap<usize, Bytes>,
    /// An earlier try may have been stored: a message that is found under its own id is ours.
    pub(super) repeated: bool,
    /// What may have been written by now.
    pub(super) begun: Begun,
    /// It is a producer who pushes, not the server itself: a maintenance may refuse it.
    pub(super) producer: bool,
}

/// What a call may have written by now, so that its error must not deny it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Begun {
    /// Messages, by a try of unknown outcome.
    pub(super) stored: bool,
    /// Partitions and queues that were missing.
    pub(super) made: bool,
}

impl Begun {
    /// The error of the call, given what is known of its items.
    pub(super) fn explain(self, outcomes: &[Option<PushOutcome>], error: StoreError) -> StoreError {
        let stored = self.stored || outcomes.iter().any(Option::is_some);
        // A full disk and a maintenance refuse messages; that a queue was made is no secret.
        if stored || (self.made && matches!(error, StoreError::Unavailable { .. })) {
            return error.after_write();
        }
        error
    }
}

impl PushCall {
    pub(super) fn new(items: Vec<PushItem>) -> Self {
        let mut slots: Vec<Slot> = Vec::new();
        let mut by_key: HashMap<PartitionKey, usize> = HashMap::new();
        let mut firsts: HashMap<(usize, &str), usize> = HashMap::new();
        let mut slot_of = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let key = (item.queue.clone(), item.partition.clone());
            let slot = *by_key.entry(key.clone()).or_insert_with(|| {
                slots.push(Slot::new(key));
                slots.len() - 1
            });
            slot_of.push(slot);
            match firsts.entry((slot, item.transaction_id.as_str())) {
                Entry::Occupied(first) => {
                    slots[slot].repeats.push((index, *first.get()));
                }
                Entry::Vacant(vacant) => {
                    vacant.insert(index);
                    slots[slot].items.push(index);
                    slots[slot].explicit |= !item.transaction_id.names_message(item.id);
                }
            }
        }
        let outcomes = vec![None; items.len()];
        let changes = slots.iter().map(|_| None).collect();
        let (sealed, begun) = (HashMap::new(), Begun::default());
        let (repeated, producer) = (false, true);
        Self { slots, outcomes, changes, slot_of, sealed, repeated, begun, producer, items }
    }

    /// The slots that are to be tried.
    pub(super) fn open(&self) -> Vec<usize> {
        let open = |(index, slot): (usize, &Slot)| (slot.state == SlotState::Open).then_some(index);
        self.slots.iter().enumerate().filter_map(open).collect()
    }

    /// Seals what goes into encrypted queues, once.
    pub(super) fn seal(&mut self, slots: &[usize], sealing: &Sealing) -> Result<(), StoreError> {
        const OPERATION: &str = "push";
        let fail = |error| match error {
            SealingError::NoKeys => StoreError::NoKeys { operation: OPERATION },
            SealingError::Seal(error) => {
                StoreError::Fatal { operation: OPERATION, source: error.into() }
            }
        };
        for slot in slots.iter().map(|slot| &self.slots[*slot]).filter(|slot| slot.sealed) {
            for index in &slot.items {
                if let Entry::Vacant(place) = self.sealed.entry(*index) {
                    let item = &self.items[*index];
                    let sealed = sealing.seal(item.id, &item.payload).map_err(fail)?;
                    place.insert(sealed.into());
                }
            }
        }
        Ok(())
    }

    /// The payload of an item as it is stored.
    fn stored_payload(&self, index: usize) -> &Bytes {
        let plain = &self.items[index].payload;
        match self.slots[self.slot_of[index]].sealed {
            true => self.sealed.get(&index).expect("whatever is planned was encrypted before"),
            false => plain,
        }
    }

    /// Records what the database said of an item's id: where it is taken, or that it is free.
    pub(super) fn said(&mut self, slot: usize, txn: &str, offset: Option<i64>) {
        let slot = &mut self.slots[slot];
        let named = |index: &&usize| self.items[**index].transaction_id.as_str() == txn;
        if let Some(index) = slot.items.iter().find(named) {
            slot.said.insert(*index, offset);
        }
    }

    /// Records the outcomes of a slot that was stored, or is held back.
    pub(super) fn finish(&mut self, planned: &Planned, ids: &HashMap<String, Uuid>, held: bool) {
        let slot = &mut self.slots[planned.slot];
        slot.state = SlotState::Done;
        let partition = PartitionId(slot.partition);
        for index in &planned.stored {
            let id = self.items[*index].id;
            self.outcomes[*index] = Some(match held {
                true => PushOutcome::Held { id, partition },
                false => PushOutcome::Queued { id, partition },
            });
        }
        for (index, offset) in &planned.known {
            let item = &self.items[*index];
            let id = ids.get(item.transaction_id.as_str()).copied().unwrap_or(item.id.0);
            let id = MessageId(id);
            self.outcomes[*index] = Some(match self.repeated && id == item.id {
                true if *offset == NO_OFFSET => PushOutcome::Held { id, partition },
                true => PushOutcome::Queued { id, partition },
                false => PushOutcome::Duplicate { id, partition },
            });
        }
        for (index, first) in &slot.repeats {
            if let Some(id) = self.outcomes[*first].as_ref().map(PushOutcome::id) {
                self.outcomes[*index] = Some(PushOutcome::Duplicate { id, partition });
            }
        }
    }
}

impl Slot {
    fn new(key: PartitionKey) -> Self {
        Self {
            key,
            partition: 0,
            state: SlotState::Open,
            items: Vec::new(),
            repeats: Vec::new(),
            said: HashMap::new(),
            explicit: false,
            sealed: false,
        }
    }
}

/// What one try sends for one slot.
pub(super) struct Planned {
    pub(super) slot: usize,
    /// What the node knew of the partition when the plan was made.
    pub(super) named: Known,
    /// Whether the database compares ids.
    pub(super) checked: bool,
    /// Items that are taken for duplicates, with the offset of the first message.
    pub(super) known: Vec<(usize, i64)>,
    /// Items to be stored.
    pub(super) stored: Vec<usize>,
}

/// One try: the parameters of the functions `push` and `transact`.
#[derive(Default)]
pub(super) struct PushPlan {
    pub(super) slots: Vec<Planned>,
    partitions: Vec<i64>,
    lens: Vec<i32>,
    checks: Vec<bool>,
    froms: Vec<i64>,
    tos: Vec<i64>,
    known_slots: Vec<i32>,
    known_offsets: Vec<i64>,
    known_txns: Vec<String>,
    chunk_slots: Vec<i32>,
    chunk_starts: Vec<i32>,
    chunk_lens: Vec<i32>,
    chunk_items: Vec<i32>,
    chunk_txns: Vec<String>,
    chunk_bodies: Vec<Vec<u8>>,
    ids: Vec<Uuid>,
    ends: Vec<i32>,
    traces: Vec<Option<Uuid>>,
    producers: Vec<Option<String>>,
    sealed: Vec<bool>,
}

impl PushPlan {
    /// Plans the slots that are open, or all (for a transaction).
    pub(super) fn new(call: &PushCall, slots: &[usize], dedup: &mut DedupCache) -> Self {
        let mut plan = Self::default();
        for slot in slots {
            plan.add(call, *slot, dedup);
        }
        if plan.traces.iter().all(Option::is_none) {
            plan.traces.clear();
        }
        if plan.producers.iter().all(Option::is_none) {
            plan.producers.clear();
        }
        plan
    }

    fn add(&mut self, call: &PushCall, index: usize, dedup: &mut DedupCache) {
        let slot = &call.slots[index];
        let checked = slot.explicit || call.repeated;
        let mut planned = Planned {
            slot: index,
            named: dedup.known(slot.partition),
            checked,
            known: Vec::new(),
            stored: Vec::new(),
        };
        for item in &slot.items {
            let txn = call.items[*item].transaction_id.as_str();
            let cached = || dedup.offset(slot.partition, txn).filter(|_| checked);
            match slot.said.get(item).copied().unwrap_or_else(cached) {
                Some(offset) => planned.known.push((*item, offset)),
                None => planned.stored.push(*item),
            }
        }
        let number = to_i32(self.slots.len() + 1);
        self.partitions.push(slot.partition);
        self.lens.push(to_i32(planned.stored.len()));
        self.checks.push(checked);
        self.sealed.push(slot.sealed);
        self.froms.push(planned.named.from);
        self.tos.push(planned.named.to);
        for (item, offset) in &planned.known {
            self.known_slots.push(number);
            self.known_offsets.push(*offset);
            self.known_txns.push(call.items[*item].transaction_id.as_str().to_owned());
        }
        self.add_chunks(call, number, &planned.stored);
        self.slots.push(planned);
    }

    fn add_chunks(&mut self, call: &PushCall, number: i32, stored: &[usize]) {
        let mut start = 0;
        while start < stored.len() {
            let len = chunk_len(stored[start..].iter().map(|item| call.stored_payload(*item)));
            self.chunk_slots.push(number);
            self.chunk_starts.push(to_i32(start));
            self.chunk_lens.push(to_i32(len));
            self.chunk_items.push(to_i32(self.ids.len() + 1));
            let mut txns = String::new();
            let mut body = Vec::new();
            for index in &stored[start..start + len] {
                let item = &call.items[*index];
                if !txns.is_empty() {
                    txns.push('\n');
                }
                txns.push_str(item.transaction_id.as_str());
                body.extend_from_slice(call.stored_payload(*index));
                self.ids.push(item.id.0);
                self.ends.push(to_i32(body.len()));
                self.traces.push(item.trace_id);
                self.producers.push(item.producer.clone());
            }
            self.chunk_txns.push(txns);
            self.chunk_bodies.push(body);
            start += len;
        }
    }

    /// The parameters, in the order in which both functions begin.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.partitions,
            &self.lens,
            &self.checks,
            &self.froms,
            &self.tos,
            &self.known_slots,
            &self.known_offsets,
            &self.known_txns,
            &self.chunk_slots,
            &self.chunk_starts,
            &self.chunk_lens,
            &self.chunk_items,
            &self.chunk_txns,
            &self.chunk_bodies,
            &self.ids,
            &self.ends,
            &self.traces,
            &self.producers,
            &self.sealed,
        ]
    }
}

/// How many of these payloads make the next segment: at least one.
fn chunk_len<'a>(payloads: impl Iterator<Item = &'a Bytes>) -> usize {
    let mut bytes = 0;
    let fits = |payload: &&Bytes| {
        bytes += payload.len();
        bytes <= SEGMENT_BYTES_MAX
    };
    payloads.take(SEGMENT_LEN_MAX).take_while(fits).count().max(1)
}

fn to_i32(n: usize) -> i32 {
    i32::try_from(n).expect("a call carries far less than 2 GB")
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakeline_core::{PartitionName, QueueName, TransactionId};

    fn item(partition: &str, txn: &str) -> PushItem {
        PushItem {
            queue: QueueName::new("q").expect("valid"),
            partition: PartitionName::new(partition).expect("valid"),
            id: MessageId::generate(),
            transaction_id: TransactionId::new(txn).expect("valid"),
            trace_id: None,
            payload: Bytes::from_static(b"{}"),
            producer: None,
        }
    }

    #[test]
    fn a_segment_is_bounded_but_takes_any_single_message() {
        let payloads = |lens: &[usize]| -> Vec<Bytes> {
            lens.iter().map(|len| Bytes::from(vec![b'x'; *len])).collect()
        };
        assert_eq!(chunk_len(payloads(&[10; 250]).iter()), SEGMENT_LEN_MAX);
        assert_eq!(chunk_len(payloads(&[30_000, 30_000, 30_000]).iter()), 2);
        assert_eq!(chunk_len(payloads(&[1_000_000, 1]).iter()), 1);
    }

    #[test]
    fn an_id_that_repeats_within_a_call_is_sent_once() {
        let items = vec![item("a", "x"), item("b", "x"), item("a", "x"), item("a", "y")];
        let first = items[0].id;
        let mut call = PushCall::new(items);
        let mut dedup = DedupCache::default();
        let plan = PushPlan::new(&call, &call.open(), &mut dedup);
        assert_eq!(plan.lens, [2, 1]);
        assert_eq!(plan.chunk_txns, ["x\ny", "x"]);
        for planned in &plan.slots {
            call.finish(planned, &HashMap::new(), false);
        }
        assert!(matches!(call.outcomes[2], Some(PushOutcome::Duplicate { id, .. }) if id == first));
        assert!(matches!(call.outcomes[3], Some(PushOutcome::Queued { .. })));
    }

    #[test]
    fn ids_made_by_the_node_need_no_comparison() {
        let mut generated = item("a", "x");
        generated.transaction_id = TransactionId::of_message(generated.id);
        let mut call = PushCall::new(vec![generated]);
        let mut dedup = DedupCache::default();
        assert_eq!(PushPlan::new(&call, &[0], &mut dedup).checks, [false]);
        call.repeated = true;
        assert_eq!(PushPlan::new(&call, &[0], &mut dedup).checks, [true]);
    }
}
