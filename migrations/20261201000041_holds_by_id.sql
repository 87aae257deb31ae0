-- Holds are listed by their ids, which sort by time, as the primary key does. The index by entry number cost two entries for
-- each hold: one when it was placed, one when it ended. A running older program sorts by number without it, more slowly.

drop index holds_listed;
