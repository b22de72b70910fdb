-- Hears the hints of this schema. Called by: HintListener, on a connection of its own.
LISTEN @channel@
