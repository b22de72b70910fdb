-- Adds a delivery that is due now for an endpoint with a corrupt row, unless its readable columns
-- show that it does not get the message: corrupt channels exclude no message, and an endpoint that
-- may be in strict order is treated as such.
INSERT INTO hook_deliveries (endpoint_no, message_no, state, class, due_at, in_order, pulled, created_at, updated_at)
SELECT e.endpoint_no, ?2, 'waiting', 0, ?3,
       CASE WHEN json_valid(e.options) AND json_extract(e.options, '$.fifo') IS NULL THEN NULL ELSE 1 END,
       coalesce((SELECT l.pulled FROM hook_lanes l WHERE l.endpoint_no = e.endpoint_no), 0), ?3, ?3
FROM hook_endpoints e
WHERE e.endpoint_no = ?1 AND e.deleted_at IS NULL
  AND (?5 OR e.disabled IS NULL
       AND CASE WHEN json_valid(e.channels)
                THEN json_array_length(e.channels) = 0
                     OR EXISTS (SELECT 1 FROM json_each(e.channels) own JOIN json_each(?4) given ON given.value = own.value)
                ELSE 1 END)
