-- Messages for very many endpoints: their deliveries are made in pieces after the message is stored, so that one
-- transaction makes a bounded number of them.

CREATE TABLE hook_fan_outs (
    application_no INTEGER NOT NULL,
    message_no     INTEGER NOT NULL,           -- within an application they are made in this order
    only_endpoint  INTEGER,                    -- the only endpoint that gets it
    place          INTEGER NOT NULL,           -- the last endpoint that was looked at
    last           INTEGER NOT NULL,           -- the last one that was there when the message was stored
    PRIMARY KEY (application_no, message_no)
) STRICT, WITHOUT ROWID;
