(* Reads plans in normal form as whole numbers from standard input (extracted.py writes them). Prints one line of 0 and 1 for each plan. *)
open Extracted

let next () = Scanf.scanf " %d" (fun x -> x)
let many read = List.init (next ()) (fun _ -> read ())   (* List.init evaluates in order *)
let numbers () = many next
let pair () = let a = next () in let b = next () in (a, b)
let truth () = next () = 1

let node id =
  let n_takes = truth () in let n_gpus = next () in let n_bytes = next () in let n_domain = next () in
  { n_id = id; n_takes; n_gpus; n_bytes; n_domain; n_amounts = numbers () }

let worker () =
  let w_index = next () in let w_node = next () in let w_ranks = numbers () in
  let w_gpus = next () in let w_share = next () in { w_index; w_node; w_ranks; w_gpus; w_share; w_bytes = next () }

let limits () =
  let count = next () in
  let nodes = List.init count node in
  let gpus_each = next () in let bytes_each = next () in let amounts_each = numbers () in
  let workers_min = next () in let workers_max = next () in let apart = truth () in let one_domain = truth () in
  let pins = many pair in let dead = many pair in let unreachable = many pair in
  let partitions_asked = next () in let tensors = next () in
  let quota = match next () with -1 -> None | gpus -> Some gpus in
  { nodes; gpus_each; bytes_each; amounts_each; workers_min; workers_max; apart; one_domain; pins; dead; unreachable;
    partitions_asked; tensors; quota }

let facts () =
  let workers = many worker in let ring = numbers () in let partitions = next () in
  let parts_by_rank = many numbers in let schedule = numbers () in
  { workers; ring; partitions; parts_by_rank; schedule; ranks_by_node = many pair }

let () =
  for _ = 1 to next () do
    let c = limits () in
    let p = facts () in
    print_endline (String.concat "" (List.map (fun holds -> if holds then "1" else "0") (checks c p)))
  done
