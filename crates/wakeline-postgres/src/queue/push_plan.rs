//! The arguments of a push: its messages by partition, split into segments.
//!
//! # Where it sits
//! [`super::push`] and [`crate::transact`] create a [`PushCall`] from their items, and for each
//! attempt a [`PushPlan`] of the slots that are still open.
//!
//! # Invariants
//! * Items of one partition keep their order. A transaction id that repeats within a call is sent
//!   once, and its later items are duplicates of the first.
//! * A segment has at most [`SEGMENT_LEN_MAX`] messages and [`SEGMENT_BYTES_MAX`] bytes, unless a
//!   single message is larger.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{Change, MessageId, PartitionId};
use wakeline_store::{
    PayloadEncryption, PayloadEncryptionError, PushItem, PushOutcome, StoreError,
};

use super::directory::PartitionKey;
use crate::dedup::{DedupCache, KnownRange};

const SEGMENT_LEN_MAX: usize = 100;
const SEGMENT_BYTES_MAX: usize = 64 * 1024;

/// The offset that the database returns for a message that is scheduled or held.
const NO_OFFSET: i64 = -1;

/// The state of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    /// The slot has to be stored.
    Open,
    /// Another transaction has locked the partition.
    Busy,
    /// The slot was stored.
    Done,
}

/// The messages of one partition within a call.
pub(super) struct PushSlot {
    pub(super) key: PartitionKey,
    /// The partition's number; 0 until it is known.
    pub(super) partition: i64,
    pub(super) state: SlotState,
    /// The indexes of the items, only the first of each transaction id.
    items: Vec<usize>,
    /// The indexes of items that repeat a transaction id, each with the index of its first item.
    repeats: Vec<(usize, usize)>,
    /// What the database returned for items: the offset of the first message with the transaction
    /// id, or `None` if the id is free.
    offsets: HashMap<usize, Option<i64>>,
    /// Whether a producer chose one of the ids. Generated ids cannot exist already.
    explicit: bool,
    /// Whether the queue is encrypted, as far as this node knows.
    pub(super) encrypted: bool,
}

/// The state of one push.
pub(super) struct PushCall {
    pub(super) items: Vec<PushItem>,
    pub(super) slots: Vec<PushSlot>,
    /// The outcome of each item, once it is known.
    pub(super) outcomes: Vec<Option<PushOutcome>>,
    /// The change of each slot that was stored.
    pub(super) changes: Vec<Option<Change>>,
    /// The index of the slot of each item.
    pub(super) slot_of: Vec<usize>,
    /// The encrypted payloads of items for encrypted queues.
    encrypted: HashMap<usize, Bytes>,
    /// Whether an earlier attempt may have stored messages. Then a message that is found under its
    /// own id is not a duplicate.
    pub(super) repeated: bool,
    /// What earlier attempts may have written.
    pub(super) begun: Begun,
    /// Whether a producer pushes, and not the server itself. Maintenance refuses only producers.
    pub(super) producer: bool,
}

/// What a call may have written before it failed. Its error must not say that nothing was written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Begun {
    /// An attempt of unknown outcome may have stored messages.
    pub(super) stored: bool,
    /// Missing partitions or queues may have been created.
    pub(super) made: bool,
}

impl Begun {
    /// Adapts the error of the call to what is known about its items.
    pub(super) fn explain(self, outcomes: &[Option<PushOutcome>], error: StoreError) -> StoreError {
        let stored = self.stored || outcomes.iter().any(Option::is_some);
        // The errors of a full disk and of maintenance only say that the messages were refused;
        // they stay correct if a queue was created.
        if stored || (self.made && matches!(error, StoreError::Unavailable { .. })) {
            return error.after_write();
        }
        error
    }
}

impl PushCall {
    pub(super) fn new(items: Vec<PushItem>) -> Self {
        let mut slots: Vec<PushSlot> = Vec::new();
        let mut by_key: HashMap<PartitionKey, usize> = HashMap::new();
        let mut firsts: HashMap<(usize, &str), usize> = HashMap::new();
        let mut slot_of = Vec::with_capacity(items.len());
        for (index, item) in items.iter().enumerate() {
            let key = (item.queue.clone(), item.partition.clone());
            let slot = *by_key.entry(key.clone()).or_insert_with(|| {
                slots.push(PushSlot::new(key));
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
        let (encrypted, begun) = (HashMap::new(), Begun::default());
        let (repeated, producer) = (false, true);
        Self { slots, outcomes, changes, slot_of, encrypted, repeated, begun, producer, items }
    }

    /// Returns the indexes of the slots that have to be stored.
    pub(super) fn open(&self) -> Vec<usize> {
        let open =
            |(index, slot): (usize, &PushSlot)| (slot.state == SlotState::Open).then_some(index);
        self.slots.iter().enumerate().filter_map(open).collect()
    }

    /// Encrypts the payloads for encrypted queues, each only once.
    pub(super) fn encrypt(
        &mut self,
        slots: &[usize],
        encryption: &PayloadEncryption,
    ) -> Result<(), StoreError> {
        const OPERATION: &str = "push";
        let fail = |error| match error {
            PayloadEncryptionError::NoKeys => StoreError::NoKeys { operation: OPERATION },
            PayloadEncryptionError::Encryption(error) => {
                StoreError::Fatal { operation: OPERATION, source: error.into() }
            }
        };
        for slot in slots.iter().map(|slot| &self.slots[*slot]).filter(|slot| slot.encrypted) {
            for index in &slot.items {
                if let Entry::Vacant(place) = self.encrypted.entry(*index) {
                    let item = &self.items[*index];
                    let encrypted = encryption.encrypt(item.id, &item.payload).map_err(fail)?;
                    place.insert(encrypted.into());
                }
            }
        }
        Ok(())
    }

    /// Returns the payload of an item as it is stored.
    fn stored_payload(&self, index: usize) -> &Bytes {
        if self.slots[self.slot_of[index]].encrypted {
            self.encrypted.get(&index).expect("whatever is planned was encrypted before")
        } else {
            &self.items[index].payload
        }
    }

    /// Records the offset of the message that has an item's transaction id; `None` if the id is
    /// free.
    pub(super) fn note_offset(&mut self, slot: usize, txn: &str, offset: Option<i64>) {
        let slot = &mut self.slots[slot];
        let named = |index: &&usize| self.items[**index].transaction_id.as_str() == txn;
        if let Some(index) = slot.items.iter().find(named) {
            slot.offsets.insert(*index, offset);
        }
    }

    /// Records the outcomes of a slot that was stored or is held.
    pub(super) fn finish(
        &mut self,
        planned: &PlannedSlot,
        ids: &HashMap<String, Uuid>,
        held: bool,
    ) {
        let slot = &mut self.slots[planned.slot];
        slot.state = SlotState::Done;
        let partition = PartitionId(slot.partition);
        for index in &planned.stored {
            let id = self.items[*index].id;
            self.outcomes[*index] = Some(if held {
                PushOutcome::Held { id, partition }
            } else {
                PushOutcome::Queued { id, partition }
            });
        }
        for (index, offset) in &planned.known {
            let item = &self.items[*index];
            let id = ids.get(item.transaction_id.as_str()).copied().unwrap_or(item.id.0);
            let id = MessageId(id);
            let own = self.repeated && id == item.id;
            self.outcomes[*index] = Some(if !own {
                PushOutcome::Duplicate { id, partition }
            } else if *offset == NO_OFFSET {
                PushOutcome::Held { id, partition }
            } else {
                PushOutcome::Queued { id, partition }
            });
        }
        for (index, first) in &slot.repeats {
            if let Some(id) = self.outcomes[*first].as_ref().map(PushOutcome::id) {
                self.outcomes[*index] = Some(PushOutcome::Duplicate { id, partition });
            }
        }
    }
}

impl PushSlot {
    fn new(key: PartitionKey) -> Self {
        Self {
            key,
            partition: 0,
            state: SlotState::Open,
            items: Vec::new(),
            repeats: Vec::new(),
            offsets: HashMap::new(),
            explicit: false,
            encrypted: false,
        }
    }
}

/// What one attempt sends for one slot.
pub(super) struct PlannedSlot {
    pub(super) slot: usize,
    /// The range of ids that the node knew when the plan was made.
    pub(super) named: KnownRange,
    /// Whether the database compares ids.
    pub(super) checked: bool,
    /// The indexes of items that are duplicates, with the offset of the first message.
    pub(super) known: Vec<(usize, i64)>,
    /// The indexes of items to be stored.
    pub(super) stored: Vec<usize>,
}

/// The parameters of the SQL functions `push` and `transact` for one attempt.
#[derive(Default)]
pub(super) struct PushPlan {
    pub(super) slots: Vec<PlannedSlot>,
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
    encrypted: Vec<bool>,
}

impl PushPlan {
    /// Plans an attempt to store the given slots: the open ones, or all of them for a transaction.
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
        let mut planned = PlannedSlot {
            slot: index,
            named: dedup.known(slot.partition),
            checked,
            known: Vec::new(),
            stored: Vec::new(),
        };
        for item in &slot.items {
            let txn = call.items[*item].transaction_id.as_str();
            let cached = || dedup.offset(slot.partition, txn).filter(|_| checked);
            match slot.offsets.get(item).copied().unwrap_or_else(cached) {
                Some(offset) => planned.known.push((*item, offset)),
                None => planned.stored.push(*item),
            }
        }
        let number = to_i32(self.slots.len() + 1);
        self.partitions.push(slot.partition);
        self.lens.push(to_i32(planned.stored.len()));
        self.checks.push(checked);
        self.encrypted.push(slot.encrypted);
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

    /// Returns the parameters, in the order that both functions share.
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
            &self.encrypted,
        ]
    }
}

/// Returns how many of these payloads the next segment contains: at least one.
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
