-- Work has the name of its activity, so that workers claim only what they have the code for.
--
-- Names have numbers, as capabilities and tags have; 0 stands for a name that the store does not
-- know: work that was there before, or that a node of an earlier release or another runtime stores.
-- Any worker takes that.
-- Claims probe one index by the tag and the name together, so one number holds both. It is computed,
-- because nodes of earlier releases write the tag alone.

CREATE TABLE @schema@.flow_activity_names (
    name_id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);
COMMENT ON TABLE @schema@.flow_activity_names IS 'names of activities; number 0 stands for none';

ALTER TABLE @schema@.flow_work
    ADD COLUMN name_id integer NOT NULL DEFAULT 0,
    ADD COLUMN route bigint NOT NULL GENERATED ALWAYS AS (tag_id::bigint << 32 | name_id) STORED;
COMMENT ON COLUMN @schema@.flow_work.route IS
    'which workers it is for: the numbers of its tag and of its name';

DROP INDEX @schema@.flow_work_ready;
DROP INDEX @schema@.flow_work_ready_session;
DROP INDEX @schema@.flow_work_later;
DROP INDEX @schema@.flow_work_later_session;
CREATE INDEX flow_work_ready ON @schema@.flow_work (route, work_id)
    WHERE state = 0 AND session IS NULL;
CREATE INDEX flow_work_ready_session ON @schema@.flow_work (route, work_id)
    WHERE state = 0 AND session IS NOT NULL;
CREATE INDEX flow_work_later ON @schema@.flow_work (route, due_at)
    WHERE state = 1 AND session IS NULL;
CREATE INDEX flow_work_later_session ON @schema@.flow_work (route, due_at)
    WHERE state = 1 AND session IS NOT NULL;

CREATE OR REPLACE VIEW @schema@.activities AS
SELECT w.work_id, l.instance, w.execution, w.activity, t.name AS tag, w.session,
    CASE WHEN w.state = 0 THEN 'available' WHEN w.lease_token IS NULL THEN 'delayed'
        ELSE 'leased' END AS state,
    w.due_at, w.attempts, n.name
FROM @schema@.flow_work w
JOIN @schema@.flow_lanes l USING (lane_id)
LEFT JOIN @schema@.flow_tags t USING (tag_id)
LEFT JOIN @schema@.flow_activity_names n USING (name_id);
COMMENT ON VIEW @schema@.activities IS
    'activities that wait for a worker or are leased by one; due_at is the end of lease or delay';
