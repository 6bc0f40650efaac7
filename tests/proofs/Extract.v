(* The checker as OCaml. N becomes OCaml's int: every number of the normal form is below 2^61. *)
Require Import PlanChecker.
Require Import Extraction ExtrOcamlBasic ExtrOcamlNatInt ExtrOcamlZInt.
Extraction "extracted.ml" checks.
