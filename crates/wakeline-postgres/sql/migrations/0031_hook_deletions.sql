-- Endpoints and applications of any size are deleted in pieces, and old messages are removed.

ALTER TABLE @schema@.hook_endpoints ADD COLUMN cancelling boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN @schema@.hook_endpoints.cancelling IS
    'it is deleted, and deliveries wait for it that background work cancels';
CREATE INDEX hook_endpoints_cancelling ON @schema@.hook_endpoints (endpoint_id) WHERE cancelling;

ALTER TABLE @schema@.hook_applications ADD COLUMN stop_after uuid;
COMMENT ON COLUMN @schema@.hook_applications.stop_after IS
    'it is deleted, and its endpoints behind this one are still to be stopped';

-- Messages by age, for retention.
CREATE INDEX hook_messages_created ON @schema@.hook_messages (created_at, message_id);
