// Package script is a deterministic model engine that follows a script written
// in the conversation itself. The offline demo, the fake HTTP server of package
// llmtest and tests use it.
//
// The engine keeps no state: a reply is a pure function of the request's
// messages and offered tools. A process that was killed and started again, or
// another worker, therefore answers the same. For the same reason it needs no
// set-up: whoever sends a message decides what the "model" will do.
//
// # The language
//
// A script is a user message that begins with "script:". Its steps are written
// one per line, or separated by " ;; ". Step k (from 0) is the answer to the
// request that has k non-partial assistant messages after that user message.
//
//	say TEXT               the final answer; \n in TEXT is a line break
//	echo [TEXT]            the final answer: TEXT, then the latest tool results
//	                       (without any, the latest user message)
//	call TOOL {JSON}       one tool call; without JSON the arguments are {}
//	call A {..} && B {..}  several calls in one reply
//	ask TEXT               one call of ask_user with that question
//	repeat N call ...      N such replies; %d in the JSON is the round, from 1
//
// Modifiers stand before a step, in any order:
//
//	think TEXT => STEP     reasoning that is sent before the text
//	first DURATION STEP    delay before the first token
//	slow DURATION STEP     delay between two streamed words
//	fail STATUS [xN] [after DURATION] STEP
//	                       HTTP server only: the first N requests (default 1)
//	                       for this step get this status, with a Retry-After
//	break [xN] STEP        HTTP server only: the connection breaks in the middle
//	                       of the first N (default 1) answers to this step
//
// The JSON after a tool's name is read as JSON, so its strings may hold
// newlines, " ;; " and whole scripts: a child's task is a script in the task
// argument of assign_task, and so on down. Script, Call and Task write the
// escaping. Arguments that are not valid JSON are sent as they are, up to the
// end of the step; that is how a test makes a model send bad arguments.
//
//	script: think two things at once => call ls {"path":"."} && calculator {"expression":"6*7"}
//	call assign_task {"agent":"researcher","task":"script: call ls {\"path\":\".\"} ;; say seen"}
//	echo Here is what came back:
//
// Asked to answer anew (agent.RepairAnswer) it goes on to the next step.
//
// After the last step the answer is "done". A script with a mistake is answered
// with a sentence that names it. A tool need not be offered to be called.
//
// # Which message counts
//
// The latest script counts, unless a later user message opened a new turn: one
// that follows a finished answer, another user message or an aborted tool call,
// or carries another turn id. A message within a turn (a steering message, the
// report of a background sub-agent) leaves the script running. A new turn
// without a script is answered with a text that says what this model is.
// System messages are ignored.
//
// Compaction may remove assistant messages, or the script itself. The step is
// therefore also read from Spool's own call ids. A request for a summary
// (agent.SummaryRequest) is answered with the script and the step reached, and a
// user or system message that quotes it is as good as the script.
package script
