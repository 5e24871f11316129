// Package task takes requests that nobody waits for, keeps them in the fleet's
// streams, and makes the calls when the gate lets them through.
//
// A task is one request or many, each an item with a state of its own. Where
// it was taken in does not matter: every agent of the fleet works on every
// task, and any of them tells of it. Tasks survive the end of agents and of
// the controller; prompts and answers are in the streams of tasks and nowhere
// else, never in an event, a log line or a metric.
//
// What is kept, each record under a key of events/natslog.Tasks:
//
//	todo.LANE.UID.GROUP.N         one item's request, until it is done with
//	job.KEY                       the task, written last: without it no item is worked on
//	job.names-UID                 the client's names of its items, if it gave any
//	state.UID.GROUP.N             what became of an item
//	part.UID.N.CLAIM.K            a piece of an answer, written before the state that tells of it
//
// All of it stands in a room: that of its tenant, or of all tenants that have
// none of their own (natslog.OpenTasks). An agent may use all rooms, or one.
//
// KEY is a hash of the owner and the task's id, so that nobody finds another's
// task. A record is changed by compare-and-set alone.
//
// An agent writes its claim into an item's state when the gate has let the
// call through and before it is sent, and the answer over that claim. So a
// call is made again only when the agent with the claim ended in between; that
// it ended is believed when its successor says so, or when the server knows
// nobody of that name for some time while the asker's own connection stood.
// Each such call is counted. A call that was refused, or for which a budget is
// spent or a channel held, waits and is tried again until the task's age.
//
// All times in records are by the clock of the NATS server: an agent whose own
// is hours ahead would end every task that it looks at.
//
// Desk.Run owns all goroutines and has ended when none of them is left. Its
// policy of failure: without NATS nothing is taken in and nothing begun; an
// answer that came meanwhile is held, within the bounds of what is in flight
// at once, until it can be stored.
package task
