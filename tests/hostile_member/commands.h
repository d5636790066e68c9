/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a script may say. Each command is a line, and is answered by one line of JSON; `slot` = which lane (0).
 *
 *   boot     epoch= (or key=keep)   another boot; `epoch=+N` is relative to the present one
 *   dial     port= ms= until=tcp|tls|hello|auth|ready|up stop=BYTES  and lies: version= mesh= agent= wall= lane=
 *            session= epoch= id=wrong auth=wrong order=wrong         connects, and shakes hands as far as told
 *   listen   port=                  accept  (as dial)                the same for the side that is dialed
 *   close    how=fin|reset|goodbye  ends the lane
 *   raw      hex= fill=BYTES        bytes in the TLS stream;  tcp: below it
 *   frame    type= flags= qos= stream= offset= size= hex= u64= u32= fill= count= step=   a frame; size= may lie
 *   open     ordinal= service= meta= credit= count= flags=           streams opened by us
 *   set      pong= deaf= acks= answers=  on or off: heartbeats are answered, the lane is read, parcels are
 *            acknowledged, questions are answered
 *   link     ms=                    joins the streams of the message link, waits until both are there
 *   sp       class= hex= fill=      bytes in the link's stream
 *   make     name= ... (crate.c)    a parcel, kept by name
 *   alter    name= as= at= xor= cut= grow=     an altered copy
 *   send     name= class= length= hops= count=   sends a parcel; length= and hops= lie about it
 *   look     name=                  what became of a question
 *   wait     for=end|refused|up|link|answer|acked|reset|pong|parcels|repeats|nothing name= count= ms=
 */
#ifndef SN_TESTS_HOSTILE_MEMBER_COMMANDS_H
#define SN_TESTS_HOSTILE_MEMBER_COMMANDS_H

#include "hostile_member/member.h"
#include "hostile_member/report.h"
#include "hostile_member/script.h"

struct hm_command {
    struct hm_member *member;
    struct hm_lane *lane;
    const struct hm_line *line;
    struct hm_report *report;
};

/* Carries out the line and prints the report. */
void hm_command_run(struct hm_member *member, const struct hm_line *line);

/* do_lane.c */
enum sn_err hm_do_boot(struct hm_command *command);
enum sn_err hm_do_dial(struct hm_command *command);
enum sn_err hm_do_listen(struct hm_command *command);
enum sn_err hm_do_accept(struct hm_command *command);
enum sn_err hm_do_close(struct hm_command *command);
enum sn_err hm_do_raw(struct hm_command *command);
enum sn_err hm_do_tcp(struct hm_command *command);
enum sn_err hm_do_set(struct hm_command *command);
/* do_stream.c */
enum sn_err hm_do_frame(struct hm_command *command);
enum sn_err hm_do_open(struct hm_command *command);
enum sn_err hm_do_link(struct hm_command *command);
enum sn_err hm_do_sp(struct hm_command *command);
/* do_parcel.c */
enum sn_err hm_do_make(struct hm_command *command);
enum sn_err hm_do_alter(struct hm_command *command);
enum sn_err hm_do_send(struct hm_command *command);
enum sn_err hm_do_look(struct hm_command *command);
enum sn_err hm_do_wait(struct hm_command *command);

#endif
