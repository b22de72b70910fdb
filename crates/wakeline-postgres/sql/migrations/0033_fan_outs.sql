-- Messages for very many endpoints: their deliveries are made in pieces after the message is stored, so that one
-- transaction makes a bounded number of them.
--
-- Lock order: a fan-out comes before endpoints, as a job does.

CREATE TABLE @schema@.hook_fan_outs (
    application_id uuid NOT NULL,
    fan_out_no bigint GENERATED ALWAYS AS IDENTITY,
    message_id uuid NOT NULL,
    patterns text[] NOT NULL,
    only_endpoint uuid,
    place uuid,
    PRIMARY KEY (application_id, fan_out_no),
    UNIQUE (application_id, message_id)
) WITH (
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
COMMENT ON TABLE @schema@.hook_fan_outs IS
    'messages whose deliveries are not all made yet; in an application one after another';
COMMENT ON COLUMN @schema@.hook_fan_outs.patterns IS 'those that match the type of the message';
COMMENT ON COLUMN @schema@.hook_fan_outs.only_endpoint IS 'the only one that gets it';
COMMENT ON COLUMN @schema@.hook_fan_outs.place IS 'the last endpoint that was looked at';
