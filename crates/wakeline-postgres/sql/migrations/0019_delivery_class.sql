-- Claims look for each class of deliveries that waits, and for no other: one of another class would
-- wait for ever. So none can be written. Should there be some, they become ordinary ones, and claims are
-- sent to look (a due_at may be early).

WITH mended AS (
    UPDATE @schema@.hook_deliveries SET class = CASE WHEN attempts = 0 THEN 0 ELSE 1 END
    WHERE class NOT BETWEEN 0 AND 3
    RETURNING endpoint_id, state
)
UPDATE @schema@.hook_states SET due_at = now(), fresh = true, held = 0, held_since = NULL
WHERE endpoint_id IN (SELECT m.endpoint_id FROM mended m WHERE m.state = 0);

ALTER TABLE @schema@.hook_deliveries
    ADD CONSTRAINT hook_deliveries_class CHECK (class BETWEEN 0 AND 3);
